"""Spans in which nothing is remembered, as a person asks for them."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

from memory_tencentdb.wire import PauseRequest
from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.service.arguments import optional_session, scope_of
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.pauses import Pause
from memory_tencentdb_worker.text.times import iso_local, parse_instant


def pause(request: PauseRequest, store: Store, zone: tzinfo, now: int) -> dict[str, Any]:
    """Raises InvalidInput for a span that has no length."""
    scope = None if request.user_id is None else scope_of(request.user_id)
    since = parse_instant(request.since, zone) if request.since else now
    until = parse_instant(request.until, zone) if request.until else None
    if until is not None and until <= since:
        raise InvalidInput("the pause would end before it begins: nothing was changed")
    made = store.pause(scope, optional_session(request.session), since, until, now)
    return shown_pause(made, zone)


def resume(request: PauseRequest, store: Store, zone: tzinfo, now: int) -> dict[str, Any]:
    """Without a session or user: ends every pause."""
    scope = None if request.user_id is None else scope_of(request.user_id)
    ended = store.resume(scope, optional_session(request.session), now)
    return {"ended": [shown_pause(one, zone) for one in ended]}


def shown_pause(one: Pause, zone: tzinfo) -> dict[str, Any]:
    return {
        "id": one.id,
        "user_id": one.scope,
        "session": one.session,
        "since": iso_local(one.since, zone),
        "until": None if one.until is None else iso_local(one.until, zone),
    }
