"""What `status` says about the owner's own wishes: pauses, and what waits to be forgotten."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

from memory_tencentdb_worker.service.pausing import shown_pause
from memory_tencentdb_worker.service.reasons import Reason, reason
from memory_tencentdb_worker.store.base import Store


def owner_reasons(store: Store, now: int, unfinished: str) -> list[Reason]:
    """`unfinished` says why a forgetting that was begun has not ended. Raises StoreError."""
    reasons: list[Reason] = []
    if unfinished:
        reasons.append(reason("forgetting", f"a forgetting is not finished: {unfinished}", None))
    pauses = [one for one in store.pauses(now) if one.since <= now]
    if pauses:
        message = "memory is paused by its owner: what is said now is not stored"
        reasons.append(reason("memory_paused", message, min(one.since for one in pauses)))
    wishes = store.wishes()
    if wishes:
        message = f"{len(wishes)} times a conversation asked to forget something; it waits for you"
        reasons.append(reason("forget_pending", message, min(one.at for one in wishes)))
    held, since = store.count_suspects()
    if held:
        message = f"{held} messages that look like an attempt to plant something are held back; they wait for you"
        reasons.append(reason("quarantined", message, since))
    return reasons


def owner_part(store: Store, zone: tzinfo, now: int) -> dict[str, Any]:
    """Raises StoreError."""
    return {
        "forget_pending": len(store.wishes()),
        "quarantined": store.count_suspects()[0],
        "pauses": [shown_pause(one, zone) for one in store.pauses(now)],
    }
