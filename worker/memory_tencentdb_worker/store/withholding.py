"""What of a turn may be remembered at all: not what was said while memory paused, nor what was forgotten."""

from __future__ import annotations

from dataclasses import replace

import apsw

from memory_tencentdb_worker.models import NewTurn
from memory_tencentdb_worker.store import pauses, tombstones
from memory_tencentdb_worker.store.tombstones import Tombstones


def remembered(connection: apsw.Connection, stones: Tombstones, turn: NewTurn) -> tuple[NewTurn, str]:
    """The turn as far as it is taken in, and why not all of it is, "" when all is."""
    if pauses.covers(connection, turn.scope, turn.session_key, turn.captured_at):
        tombstones.withhold(connection, stones, turn)
        return replace(turn, messages=()), "paused"
    kept = tombstones.let_through(connection, stones, turn)
    return kept, "" if kept is turn else "forgotten"
