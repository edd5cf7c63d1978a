"""Writes one turn under a user who does not exist, looks whether it is found, and takes it away again."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from memory_tencentdb_worker.models import NewMessage, NewTurn, Origin, Role
from memory_tencentdb_worker.service.doctor_kinds import finding
from memory_tencentdb_worker.store.integrity import Integrity
from memory_tencentdb_worker.store.projections import Projector
from memory_tencentdb_worker.store.sqlite import SqliteStore

Find = Callable[[str, str], list[str]]
"""By words and user: the ids of the messages found."""


def try_canary(
    store: SqliteStore, integrity: Integrity, projector: Projector, find: Find, now: int
) -> list[dict[str, Any]]:
    """Raises StoreError when it cannot be written at all."""
    word = f"canary{secrets.token_hex(8)}"
    user = f"doctor-{word}"
    message = NewMessage(Role.USER, f"The word of this examination is {word}.", now, Origin.USER)
    turn = NewTurn(user, f"doctor:{word}", "doctor", "", (message,), now, "doctor")
    try:
        receipt = store.add_turn(turn, lambda _state: (), now)
        if not receipt.recorded:
            return [finding("canary_paused", [receipt.withheld])]
        found = find(word, user)
    finally:
        integrity.drop_scope(user)
        projector.drop_scope(user)
    return [] if set(receipt.message_ids) <= set(found) else [finding("canary_failed", list(receipt.message_ids))]
