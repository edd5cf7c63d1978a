"""L1: one batch of unread turns becomes atoms, in one transaction with the cursor that moves past them."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import replace

from memory_tencentdb_worker.errors import LLMContent, LLMTerminal, LLMTransient
from memory_tencentdb_worker.layers.calls import TOO_LONG, what_came
from memory_tencentdb_worker.layers.extraction import extract, joined, most_important, most_memories, telling
from memory_tencentdb_worker.layers.group import named, speakers
from memory_tencentdb_worker.layers.order import last_said
from memory_tencentdb_worker.layers.outcome import Done, Outcome, Parked, outcome_of
from memory_tencentdb_worker.layers.parts import Extraction, Parts
from memory_tencentdb_worker.layers.pieces import halves, pieces
from memory_tencentdb_worker.layers.reconcile import reconcile
from memory_tencentdb_worker.layers.reread import replace_rule_made, rule_made, told_apart
from memory_tencentdb_worker.layers.schedule import after_l1
from memory_tencentdb_worker.layers.screening import screened
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import Atom, AtomChanges, Filter, L1Batch, Lease, Message, NewAtom
from memory_tencentdb_worker.offline.extract import extract_atoms
from memory_tencentdb_worker.offline.homes import with_homes
from memory_tencentdb_worker.offline.reconcile import plan_changes
from memory_tencentdb_worker.offline.slots import slot_query
from memory_tencentdb_worker.store.base import Store

logger = logging.getLogger(__name__)

BATCH_MESSAGES = 20
BATCH_CHARS = 12_000
BACKGROUND_MESSAGES = 5
OFFLINE_KNOWN = 50


def run(lease: Lease, parts: Parts, now: int) -> Outcome:
    """Reads and applies one batch. A batch that cannot be digested is parked; after Retry and Paused nothing has
    moved, and the lease is still held."""
    store, settings = parts.store, parts.config.memory
    batch = store.read_l1_batch(
        lease.scope,
        lease.session_key,
        max_messages=BATCH_MESSAGES,
        max_chars=BATCH_CHARS,
        background=BACKGROUND_MESSAGES,
    )
    if batch is None:
        store.finish_job(lease, [], now)
        return Done()
    batch = screened(batch, store, now)
    if not settings.extraction.enabled or not telling(batch.messages):
        return _apply(lease, batch, AtomChanges(), parts, now)
    if parts.llm is None:
        return _apply(lease, batch, _by_rules(batch, parts), parts, now)
    return _by_model(lease, batch, parts.llm, parts, now)


def _by_model(lease: Lease, batch: L1Batch, llm: LLM, parts: Parts, now: int, *, backlog: bool = False) -> Outcome:
    """A batch whose answer would be too long is cut in half; the rest stays unread and follows at once."""
    key = _key(batch, llm)
    smaller = _first_half(batch)
    try:
        extraction = parts.held.get(key) or _extracted(llm, batch, parts, divisible=smaller is not None)
        parts.held.keep(key, extraction)
        changes = _compared(extraction, batch, parts)
    except (LLMTransient, LLMTerminal) as error:
        return outcome_of(error)
    except LLMContent as error:
        if smaller is not None and error.code in TOO_LONG:
            if not telling(smaller.messages):
                return _apply(lease, smaller, AtomChanges(), parts, now, backlog=True)
            return _by_model(lease, smaller, llm, parts, now, backlog=True)
        plan = after_l1(parts.config.memory.pipeline, now, backlog=backlog)
        parts.store.park_l1(lease, batch, f"{error.code}: {error}", what_came(error), plan, now)
        return Parked(error.code)
    changes = replace(changes, scene_name=extraction.scene_name, extractor=f"model:{llm.model}")
    done = _apply(lease, batch, changes, parts, now, backlog=backlog, extraction=extraction)
    parts.held.drop(key)
    return done


def _compared(extraction: Extraction, batch: L1Batch, parts: Parts) -> AtomChanges:
    made = rule_made(batch, parts.store)
    if not made:
        return reconcile(extraction.atoms, batch.scope, parts)
    new = told_apart(extraction.atoms, made, batch.scope)
    passed_over = frozenset(atom.id for atom in made)
    return replace_rule_made(reconcile(new, batch.scope, parts, passed_over), made, parts.store)


def _extracted(llm: LLM, batch: L1Batch, parts: Parts, *, divisible: bool) -> Extraction:
    """A batch that cannot be divided by turns is read in as many pieces as it takes."""
    if divisible:
        return extract(llm, batch, parts.config, parts.zone, divisible=True)
    return _read_in_pieces(llm, pieces(batch, BATCH_CHARS), parts)


def _read_in_pieces(llm: LLM, todo: Sequence[L1Batch], parts: Parts) -> Extraction:
    """What has been read of a turn is held until all of it is, so that a failure does not pay twice."""
    found = []
    for piece in (piece for piece in todo if telling(piece.messages)):
        key = _key(piece, llm)
        extraction = parts.held.get(key) or _piece(llm, piece, parts)
        parts.held.keep(key, extraction)
        found.append(extraction)
    for piece in todo:
        parts.held.drop(_key(piece, llm))
    return found[0] if len(found) == 1 else joined(found, todo[0].scope)


def _piece(llm: LLM, piece: L1Batch, parts: Parts) -> Extraction:
    smaller = halves(piece)
    divisible = len(smaller) > 1
    try:
        return extract(llm, piece, parts.config, parts.zone, divisible=divisible)
    except LLMContent as error:
        if not divisible or error.code not in TOO_LONG:
            raise
    return _read_in_pieces(llm, smaller, parts)


def _by_rules(batch: L1Batch, parts: Parts) -> AtomChanges:
    read = extract_atoms(replace(batch, messages=telling(batch.messages)), parts.zone)
    told = [named(atom, speakers(batch), batch.scope) for atom in read]
    new = with_homes(told, batch.scope, batch.messages[-1].sent_at)
    most = most_memories(batch, parts.config)
    known = _known(new, batch.scope, parts.store)
    return plan_changes(most_important(new, most), known, last_said([*new, *known], parts.store))


def _known(new: list[NewAtom], scope: str, store: Store) -> list[Atom]:
    """What the new atoms may repeat or replace, also where a former value stands in other words."""
    queries = [query for atom in new for query in (atom.content, slot_query(atom.content)) if query]
    hits = [hit for query in queries for hit in store.search_atoms(query, Filter(scope), OFFLINE_KNOWN)]
    return list({hit.atom.id: hit.atom for hit in hits}.values())


def _apply(
    lease: Lease,
    batch: L1Batch,
    changes: AtomChanges,
    parts: Parts,
    now: int,
    *,
    backlog: bool = False,
    extraction: Extraction | None = None,
) -> Done:
    plan = after_l1(parts.config.memory.pipeline, now, backlog=backlog)
    added = parts.store.apply_atoms(lease, batch, changes, plan, now)
    refused = extraction.refused + extraction.over_limit if extraction else 0
    return Done(len(added) + len(changes.confirm), refused)


def _key(batch: L1Batch, llm: LLM) -> Hashable:
    return llm.model, batch.scope, tuple((message.id, message.text) for message in batch.messages)


def _first_half(batch: L1Batch) -> L1Batch | None:
    """The first half of the turns; None for a single turn. A batch that was parked before stays whole: the store
    takes it back as a whole."""
    turns = list(dict.fromkeys(message.turn_id for message in batch.messages))
    if len(turns) < 2 or batch.parked_id is not None:
        return None
    kept = set(turns[: len(turns) // 2])
    head: list[Message] = []
    for message in batch.messages:
        if message.turn_id not in kept:
            break
        head.append(message)
    return replace(batch, messages=tuple(head))
