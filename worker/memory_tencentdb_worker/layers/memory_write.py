"""What the host's own memory tool wrote (MEMORY.md, USER.md), mirrored: the written text is the provenance, one atom
is the memory."""

from __future__ import annotations

import re
from datetime import tzinfo

from memory_tencentdb.wire import MemoryWriteRequest, MemoryWriteResponse
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.layers.extraction import same_text
from memory_tencentdb_worker.layers.l0_turns import KEY_LIMIT, TURN_ID_LIMIT, check_key, is_excluded
from memory_tencentdb_worker.layers.l1_answer import CONTENT_LIMIT, content_of
from memory_tencentdb_worker.layers.schedule import after_atoms, bookkeeping
from memory_tencentdb_worker.layers.screening import suspicion_of
from memory_tencentdb_worker.models import (
    Atom,
    AtomChanges,
    AtomType,
    Filter,
    Message,
    NewAtom,
    NewMessage,
    NewTurn,
    Origin,
    Role,
    Source,
)
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.clean import clean_text
from memory_tencentdb_worker.text.ids import atom_id, text_hash
from memory_tencentdb_worker.text.ids import turn_id as new_turn_id
from memory_tencentdb_worker.text.times import parse_instant

SESSION_KEY = "builtin-memory"
EXTRACTOR = "builtin-memory"
PRIORITY = 80
LOOKUP = 50
_ACTIONS = ("add", "replace", "remove")
_TARGETS = ("memory", "user")
_RULE = re.compile(
    r"\b(?:always|never|must(?: not)?|from now on|do not|don['’]t)\b|以后|总是|永远|务必|必须|不要|不许|每次都",
    re.IGNORECASE,
)


def write_memory(
    request: MemoryWriteRequest, store: Store, config: Config, zone: tzinfo, now: int
) -> MemoryWriteResponse:
    """Mirrors one committed write. The same `write_id` again changes nothing. Raises InvalidInput.

    `replace` supersedes the mirrored memory that holds `old_text`; `remove` closes it. A memory that was never
    mirrored is left as it is.
    """
    _check(request)
    if is_excluded(config.memory.capture, request.session_key):
        return MemoryWriteResponse([], [])
    at = now if request.at is None else parse_instant(request.at, zone)
    text = clean_text(request.content, Role.USER)
    old_text = clean_text(request.old_text, Role.USER) or (text if request.action == "remove" else "")
    replaced = _mirrored(old_text, request.user_id, store) if request.action != "add" else []
    evidence = text or old_text
    if not evidence:
        return MemoryWriteResponse([], [])
    source = _record_evidence(request, evidence, store, at, now)
    if source is None:
        return MemoryWriteResponse([], [])
    if text and suspicion_of(text, Origin.TOOL):
        return MemoryWriteResponse([], [])  # held for a person: a page may have had the agent write it
    if request.action == "remove" or not text:
        changes = AtomChanges(close=tuple(atom.id for atom in replaced), closed_at=at, extractor=EXTRACTOR)
    else:
        atom = _atom(request.user_id, request.session_id, text, _type(request.target, text), source)
        replaced = [old for old in replaced if old.id != atom.id]
        pairs = tuple((old.id, atom.id) for old in replaced)
        changes = AtomChanges(add=(atom,), supersede=pairs, extractor=EXTRACTOR)
    if changes.add or changes.close:
        store.add_atoms(request.user_id, changes, after_atoms(config.memory.pipeline, now), now)
    return MemoryWriteResponse([atom.id for atom in changes.add], [atom.id for atom in replaced])


def _check(request: MemoryWriteRequest) -> None:
    if request.action not in _ACTIONS:
        raise InvalidInput(f"action must be one of {', '.join(_ACTIONS)}", code="bad_action")
    if request.target not in _TARGETS:
        raise InvalidInput(f"target must be one of {', '.join(_TARGETS)}", code="bad_target")
    check_key("session_key", request.session_key, longest=KEY_LIMIT, required=True)
    check_key("session_id", request.session_id, longest=KEY_LIMIT)
    check_key("user_id", request.user_id, longest=KEY_LIMIT)
    check_key("write_id", request.write_id, longest=TURN_ID_LIMIT - len("memory-write:"))


def _record_evidence(request: MemoryWriteRequest, text: str, store: Store, at: int, now: int) -> Source | None:
    """The written text as a turn of its own session, which L1 passes over. None: it may not be remembered."""
    turn = NewTurn(
        scope=request.user_id,
        turn_id=f"memory-write:{request.write_id or new_turn_id()}",
        session_key=SESSION_KEY,
        session_id=request.session_id,
        messages=(NewMessage(Role.USER, text, at, Origin.BUILTIN_MEMORY, suspicion_of(text, Origin.TOOL)),),
        captured_at=at,
        source="memory-write",
    )
    receipt = store.add_turn(turn, bookkeeping(now), now)
    digest = text_hash(text)
    held = store.messages_by_id(receipt.message_ids)  # a write_id used for several texts: the turn holds them all
    return next((Source(message.id, digest) for message in held if message.hash == digest), None)


def release_written(message: Message, store: Store, config: Config, now: int) -> None:
    """A write of the host's memory that was held back becomes a memory after all: what it was meant for is not known,
    so it claims least unless it reads like a rule."""
    source = Source(message.id, message.hash)
    atom = _atom(message.scope, message.session_id, message.text, _type("memory", message.text), source)
    changes = AtomChanges(add=(atom,), extractor=EXTRACTOR)
    store.add_atoms(message.scope, changes, after_atoms(config.memory.pipeline, now), now)


def _atom(scope: str, session_id: str, text: str, type: AtomType, source: Source) -> NewAtom:
    content = content_of(text) or text[:CONTENT_LIMIT]
    return NewAtom(
        id=atom_id(scope, type, content, [source.message_id]),
        type=type,
        content=content,
        priority=PRIORITY,
        scene_name="",
        origin=Origin.BUILTIN_MEMORY,
        sources=(source,),
        session_key=SESSION_KEY,
        session_id=session_id,
    )


def _type(target: str, text: str) -> AtomType:
    if target == "user":
        return AtomType.PERSONA
    return AtomType.INSTRUCTION if _RULE.search(text) else AtomType.EPISODIC


def _mirrored(old_text: str, scope: str, store: Store) -> list[Atom]:
    """The mirrored memory with this text, or else those that hold it: the host names an entry by a part of it."""
    wanted = same_text(old_text)
    if not wanted:
        return []
    hits = store.search_atoms(old_text, Filter(scope), LOOKUP)
    ours = [hit.atom for hit in hits if hit.atom.origin is Origin.BUILTIN_MEMORY]
    exact = [atom for atom in ours if same_text(atom.content) == wanted]
    return (exact or [atom for atom in ours if wanted in same_text(atom.content)])[:1]
