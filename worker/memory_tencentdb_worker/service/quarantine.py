"""What is held back as a suspected attempt to plant something: shown, released or dropped by the owner."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from typing import Any

from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import InvalidInput, NotFound
from memory_tencentdb_worker.layers.memory_write import release_written
from memory_tencentdb_worker.models import Origin
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.quarantine import DROPPED, HELD, RELEASED, Suspect
from memory_tencentdb_worker.text.suspicion import held_spans, suspicions
from memory_tencentdb_worker.text.times import iso_local

STATES = (HELD, RELEASED, DROPPED)
LONGEST_LIST = 1_000

MEANINGS = {
    "override": "tells an assistant to drop its rules",
    "role": "makes an assistant another, without limits",
    "frame": "pretends to be a message of the system or of the host",
    "secrets": "has secrets sent somewhere",
    "plant": "tells an assistant what to remember or to do from now on, in somebody else's words",
    "conceal": "is to be kept from the user",
    "copies": "has messages copied to somewhere",
    "prompt": "asks for hidden instructions",
    "split": "is one of these together with the message beside it",
}


class QuarantineDesk:
    def __init__(
        self, store: Store, config: Config, zone: tzinfo, clock: Callable[[], int], wake: Callable[[], None]
    ) -> None:
        self._store, self._config, self._zone, self._clock, self._wake = store, config, zone, clock, wake

    def list(self, state: str, user_id: str | None, limit: int) -> dict[str, Any]:
        """Raises InvalidInput. `state` "" shows what waits, "all" everything."""
        if state not in ("", "all", *STATES):
            raise InvalidInput(f"state must be one of {', '.join(STATES)} or all")
        wanted = None if state == "all" else state or HELD
        found = self._store.suspects(wanted, user_id, min(max(limit, 1), LONGEST_LIST))
        held, _ = self._store.count_suspects()
        return {"held": held, "items": [self._shown(one) for one in found]}

    def show(self, message_id: str) -> dict[str, Any]:
        """Raises NotFound."""
        return self._shown(self._known(message_id))

    def release(self, message_id: str) -> dict[str, Any]:
        """It is extracted as any other message. Twice is once. Raises NotFound."""
        known = self._known(message_id)
        if known.state != RELEASED:
            if known.message.origin is Origin.BUILTIN_MEMORY:
                release_written(known.message, self._store, self._config, self._clock())
            self._store.settle_suspect(known.message, RELEASED, self._clock())
            self._wake()
        return self.show(message_id)

    def drop(self, message_id: str) -> dict[str, Any]:
        """It stays in the record of conversations and becomes no memory. Raises NotFound, InvalidInput."""
        known = self._known(message_id)
        if known.state == RELEASED:
            raise InvalidInput(f"{message_id} was released: `memory-tencentdb forget --id {message_id}` removes it")
        self._store.settle_suspect(known.message, DROPPED, self._clock())
        return self.show(message_id)

    def _known(self, message_id: str) -> Suspect:
        known = self._store.suspect(message_id)
        if known is None:
            raise NotFound(f"{message_id} is not in the quarantine; `memory-tencentdb quarantine list` shows what is")
        return known

    def _shown(self, one: Suspect) -> dict[str, Any]:
        message = one.message
        foreign = message.origin in (Origin.TOOL, Origin.WEB, Origin.BUILTIN_MEMORY)
        spans = held_spans(suspicions(message.text, foreign=foreign))
        return {
            "id": message.id,
            "state": one.state,
            "reasons": [{"code": code, "meaning": MEANINGS.get(code, code)} for code in one.reasons],
            "suspicious": [message.text[start:end].strip() for start, end in spans],
            "text": message.text,
            "role": message.role,
            "origin": message.origin,
            "user_id": message.scope,
            "session_key": message.session_key,
            "at": iso_local(message.sent_at, self._zone),
            "held_at": iso_local(one.at, self._zone),
        }
