""" "Forget that", said in a conversation: what it speaks of is marked for the owner, or forgotten at once."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

from memory_tencentdb.wire import CaptureRequest, CaptureResponse
from memory_tencentdb_worker.models import Filter, Message, Role
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.wishes import Wish
from memory_tencentdb_worker.text.clean import flatten_content
from memory_tencentdb_worker.text.forget_cues import forget_cue
from memory_tencentdb_worker.text.segment import query_terms
from memory_tencentdb_worker.text.times import iso_local

NAMED_FACTS = 5
SHARED_TERMS = 0.6
"""So much of what a person names must stand in a fact, or it is another fact."""


def note_wish(request: CaptureRequest, answer: CaptureResponse, store: Store, now: int) -> Wish | None:
    """To be called after a turn was stored. The message that asks is among the targets: it may say again what it wants
    forgotten. None: the turn asks for nothing."""
    if answer.duplicate or not answer.message_ids or forget_cue(flatten_content(request.user_content)) is None:
        return None
    asked = next((one for one in store.messages_by_id(answer.message_ids) if one.role is Role.USER), None)
    cue = None if asked is None else forget_cue(asked.text)
    if asked is None or cue is None:
        return None
    if cue.about:
        targets = _facts_named(cue.about, asked.scope, store)
    else:
        targets = _said_before(asked, request.session_key, store)
    if not targets and not cue.about:
        return None
    wish = Wish(asked.scope, asked.session_key, asked.id, (*targets, asked.id), now)
    id = store.add_wish(wish, now)
    return Wish(wish.scope, wish.session_key, wish.message, wish.targets, now, id)


def shown_wishes(store: Store, zone: tzinfo) -> list[dict[str, Any]]:
    shown = []
    for wish in store.wishes():
        messages = [one for one in store.messages_by_id(wish.targets) if one.id != wish.message]
        atoms = store.atoms_by_id(wish.targets)
        shown.append(
            {
                "id": wish.id,
                "at": iso_local(wish.at, zone),
                "user_id": wish.scope,
                "session_key": wish.session_key,
                "asked_in": wish.message,
                "targets": [
                    *({"id": one.id, "layer": "L1", "text": one.content} for one in atoms),
                    *({"id": one.id, "layer": "L0", "text": one.text} for one in messages),
                ],
            }
        )
    return shown


def _said_before(asked: Message, session_key: str, store: Store) -> tuple[str, ...]:
    """The person's last message before the request; its answer and its facts go with it."""
    tail = store.session_tail(asked.scope, session_key, 20)
    before = [one for one in tail if one.seq < asked.seq and one.role is Role.USER]
    return (before[-1].id,) if before else ()


def _facts_named(about: str, scope: str, store: Store) -> tuple[str, ...]:
    wanted = set(query_terms(about))
    if not wanted:
        return ()
    hits = store.search_atoms(about, Filter(scope), NAMED_FACTS)
    return tuple(
        hit.atom.id for hit in hits if len(wanted & set(query_terms(hit.atom.content))) >= SHARED_TERMS * len(wanted)
    )
