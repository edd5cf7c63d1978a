"""Why a memory was not recalled: the first gate on the way from the store to the prompt that kept it out."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from memory_tencentdb.wire import WhyNotResponse
from memory_tencentdb_worker.errors import NotFound
from memory_tencentdb_worker.models import Atom, Filter, Layer, Message, Persona, Scene
from memory_tencentdb_worker.recall.answer import Question, Recalled, Recaller
from memory_tencentdb_worker.recall.deadline import Deadline
from memory_tencentdb_worker.recall.pack import BUDGET, QUOTA
from memory_tencentdb_worker.recall.rank import ALREADY_GIVEN, OVER_LIMIT, SAID_BY_ATOM, SAME_TEXT, VISIBLE, WEAK
from memory_tencentdb_worker.service.scene_view import find_scene
from memory_tencentdb_worker.service.trace import PERSONA_NAMES
from memory_tencentdb_worker.store.base import Store

DEADLINE_MS = 10_000
"""A person waits here, and a late arm is not what they ask about."""

LOOKED_AT = 1_000
"""Places among the hits by words that are told apart from "not found"."""


class Gate(NamedTuple):
    code: str
    message: str


GIVEN = Gate("given", "it is given for this query")
IN_SYSTEM_PROMPT = Gate("in_system_prompt", "it stands in the system prompt of every session that begins now")
OTHER_USER = Gate("other_user", "it is another user's memory")
RECALL_OFF = Gate(
    "recall_off", "recall is switched off (memory.recall.enabled) or for this session (memory.capture.excludeAgents)"
)
EMPTY_QUERY = Gate("empty_query", "the query holds no letter or digit, so nothing is looked for")
ENDED = Gate("superseded", "it is no longer true, and the query does not ask for the past")
ENOUGH_FACTS = Gate("enough_facts", "so many facts were found that older messages were not looked for")

_DROPPED = {
    WEAK: Gate("weak", "it shares no word with the query, and its meaning is too far (memory.recall.scoreThreshold)"),
    ALREADY_GIVEN: Gate("already_given", "this session was given it before, and the host sends it again by itself"),
    OVER_LIMIT: Gate("limit", "others fit better, and there is a limit to their number (memory.recall.maxResults)"),
    SAID_BY_ATOM: Gate("said_by_fact", "a fact that rests on it is given in its place"),
    SAME_TEXT: Gate("same_text", "another memory with the same text is given"),
    VISIBLE: Gate("visible", "this session has said it, and it still stands in its history"),
    BUDGET: Gate("budget", "the token budget was used up by what fits better (memory.recall.maxTokens)"),
    QUOTA: Gate("quota", "its layer has a share of the token budget, and the rest went to the other layers"),
}  # fmt: skip


def explain_absence(
    item_id: str, question: Question, recaller: Recaller, store: Store, *, recalls: bool
) -> WhyNotResponse:
    """Recalls once more and looks where the memory is left. `recalls` False: recall is switched off. Raises NotFound
    for an id that no scope knows."""
    layer, found = _find(item_id, question.scope, store)
    if found is None:
        gate = OTHER_USER
    elif not recalls:
        gate = RECALL_OFF
    elif isinstance(found, Atom | Message):
        gate = _first_gate(found, question, recaller, store)
    else:
        gate = IN_SYSTEM_PROMPT
    return WhyNotResponse(item_id, str(layer), question.query, gate is GIVEN, gate.code, gate.message)


def _find(item_id: str, scope: str, store: Store) -> tuple[Layer, Atom | Message | Scene | Persona | None]:
    """The memory, None when it is in another scope."""
    if (message := store.message(None, item_id)) is not None:
        return Layer.L0, message if message.scope == scope else None
    if (atom := store.atom(None, item_id)) is not None:
        return Layer.L1, atom if atom.scope == scope else None
    name = item_id.removeprefix("scene_blocks/")
    scene = find_scene(name, store, scope)
    if scene is not None or find_scene(name, store, None) is not None:
        return Layer.L2, scene
    persona = store.persona(scope) if item_id in PERSONA_NAMES else None
    if persona is None:
        raise NotFound(f"nothing is known under the id {item_id!a}")
    return Layer.L3, persona


def _first_gate(found: Atom | Message, question: Question, recaller: Recaller, store: Store) -> Gate:
    done = recaller.trace(question, Deadline(DEADLINE_MS))
    if any(one.id == found.id for one in done.packed.given):
        return GIVEN
    dropped = next((one.reason for one in done.packed.dropped if one.id == found.id), None)
    if dropped is not None:
        return _DROPPED[dropped]
    if not done.wanted.query:
        return EMPTY_QUERY
    if isinstance(found, Atom) and not found.live and not done.wanted.superseded:
        return ENDED
    return _search_gate(found, done, store)


def _search_gate(found: Atom | Message, done: Recalled, store: Store) -> Gate:
    """Neither arm brought it."""
    late = [name for name, arm in done.finds.arms.items() if isinstance(arm, dict) and arm.get("state") != "ok"]
    place = _place_by_words(found, done, store)
    if place == 0:
        by_meaning = (
            "and by meaning it is not among the nearest"
            if "vectors" in done.finds.arms
            else "and there is no embedding model to find it by meaning"
        )
        if "vectors" in late:
            by_meaning = "and search by meaning did not answer"
        return Gate("not_found", f"it shares no telling word with the query, {by_meaning}")
    if isinstance(found, Message) and not done.finds.words.messages:
        return ENOUGH_FACTS
    if "words" in late:
        return Gate("late", "search by words did not answer in time")
    return Gate("crowded_out", f"{place - 1} others fit the words better; the first {done.wanted.limit} are looked at")


def _place_by_words(found: Atom | Message, done: Recalled, store: Store) -> int:
    """Counted from 1; 0 when it shares no word that a search looks for."""
    wanted = done.wanted
    seen = Filter(wanted.scope, superseded=wanted.superseded)
    if isinstance(found, Atom):
        ids = [hit.atom.id for hit in store.search_atoms(wanted.query, seen, LOOKED_AT)]
    else:
        near = replace(seen, prefer=wanted.prefer)
        ids = [hit.message.id for hit in store.search_messages(wanted.query, near, LOOKED_AT)]
    return ids.index(found.id) + 1 if found.id in ids else 0
