"""L1: one batch of unread turns becomes atoms, in one transaction with the cursor that moves past them."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import replace

from memory_tencentdb_worker.errors import LLMContent, LLMTerminal, LLMTransient
from memory_tencentdb_worker.layers.calls import CONTEXT_LENGTH, TOO_LONG, what_came
from memory_tencentdb_worker.layers.extraction import extract, telling
from memory_tencentdb_worker.layers.order import last_said
from memory_tencentdb_worker.layers.outcome import Done, Outcome, Parked, outcome_of
from memory_tencentdb_worker.layers.parts import Extraction, Parts
from memory_tencentdb_worker.layers.reconcile import reconcile
from memory_tencentdb_worker.layers.schedule import after_l1
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import Atom, AtomChanges, Filter, L1Batch, Lease, Message, NewAtom
from memory_tencentdb_worker.offline.extract import extract_atoms
from memory_tencentdb_worker.offline.reconcile import plan_changes
from memory_tencentdb_worker.offline.slots import slot_query
from memory_tencentdb_worker.store.base import Store

logger = logging.getLogger(__name__)

BATCH_MESSAGES = 20
BATCH_CHARS = 12_000
BACKGROUND_MESSAGES = 5
OFFLINE_KNOWN = 50
HEAD_CHARS, TAIL_CHARS = 9_000, 3_000


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
        changes = reconcile(extraction.atoms, batch.scope, parts)
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


def _extracted(llm: LLM, batch: L1Batch, parts: Parts, *, divisible: bool) -> Extraction:
    """A single turn that no context holds is read without the middle of its longest texts, rather than not at all."""
    try:
        return extract(llm, batch, parts.config, parts.zone, divisible=divisible)
    except LLMContent as error:
        if divisible or error.code != CONTEXT_LENGTH:
            raise
        logger.warning("turn %s is too long for the model: its middle is not read", batch.messages[0].turn_id)
        short = replace(batch, background=(), messages=tuple(map(_without_middle, batch.messages)))
        return extract(llm, short, parts.config, parts.zone, divisible=False)


def _without_middle(message: Message) -> Message:
    text = message.text
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return message
    return replace(message, text=f"{text[:HEAD_CHARS]}\n…\n{text[-TAIL_CHARS:]}")


def _by_rules(batch: L1Batch, parts: Parts) -> AtomChanges:
    new = extract_atoms(replace(batch, messages=telling(batch.messages)), parts.zone)
    most = parts.config.memory.extraction.max_memories_per_session
    known = _known(new, batch.scope, parts.store)
    return plan_changes(new[:most], known, last_said([*new, *known], parts.store))


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
    return llm.model, batch.scope, tuple(message.id for message in batch.messages)


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
