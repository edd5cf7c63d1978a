"""What the owner of a memory does to it: forget, edit, undo, pause, follow a turn. One method each, thread-safe."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import tzinfo
from typing import Any

from memory_tencentdb import wire
from memory_tencentdb.redaction import Redactor
from memory_tencentdb_worker.errors import NotFound, WorkerError
from memory_tencentdb_worker.service import editing, pausing
from memory_tencentdb_worker.service.editing import Owner
from memory_tencentdb_worker.service.forget_wishes import note_wish, shown_wishes
from memory_tencentdb_worker.service.forgetting import ForgetDesk
from memory_tencentdb_worker.service.redaction import without_secrets
from memory_tencentdb_worker.service.turn_trace import trace_turn
from memory_tencentdb_worker.store.base import Store

log = logging.getLogger(__name__)

LONGEST_AUDIT = 1_000
AGAIN_SECONDS = 10.0


class OwnerDesk:
    """`auto`: what a person asks to be forgotten in a conversation is forgotten at once."""

    def __init__(
        self,
        desk: ForgetDesk,
        store: Store,
        zone: tzinfo,
        clock: Callable[[], int],
        *,
        wake: Callable[[], None],
        max_scenes: int,
        auto: bool,
        redactor: Redactor,
    ) -> None:
        self._desk, self._store, self._zone, self._clock = desk, store, zone, clock
        self._wake, self._max_scenes, self._auto = wake, max_scenes, auto
        self._redactor = redactor
        self._stopping = threading.Event()

    def start(self) -> None:
        """From now on a forgetting that was begun and not ended, by whomever, is tried again until it ends."""
        threading.Thread(target=self._run, name="forgetting-again", daemon=True).start()

    def stop(self) -> None:
        """Safe to call twice, and without `start`."""
        self._stopping.set()

    def unfinished(self) -> str:
        return self._desk.trouble

    def forget(self, request: wire.ForgetRequest) -> dict[str, Any]:
        return self._desk.forget(without_secrets(request, self._redactor))

    def rescan(self, request: wire.RescanRequest) -> dict[str, Any]:
        return self._desk.rescan(request)

    def pending(self) -> dict[str, Any]:
        return {"pending": shown_wishes(self._store, self._zone)}

    def drop_wishes(self) -> dict[str, Any]:
        """The owner keeps what was asked to be forgotten."""
        wishes = self._store.wishes()
        for wish in wishes:
            self._store.settle_wish(wish.id, self._clock())
        return {"kept": len(wishes)}

    def edit(self, request: wire.EditRequest) -> dict[str, Any]:
        return self._changed(editing.edit(without_secrets(request, self._redactor), self._owner()))

    def undo(self, request: wire.UndoRequest) -> dict[str, Any]:
        return self._changed(editing.undo(request, self._owner()))

    def trace_turn(self, turn_id: str, user_id: str | None) -> dict[str, Any]:
        """Raises NotFound."""
        return trace_turn(turn_id, self._store, self._zone, user_id)

    def audit(self, limit: int, user_id: str | None) -> dict[str, Any]:
        most = min(max(limit, 1), LONGEST_AUDIT)
        return {"changes": editing.list_changes(most, user_id, self._store, self._zone)}

    def pause(self, request: wire.PauseRequest) -> dict[str, Any]:
        request = without_secrets(request, self._redactor)
        return pausing.pause(request, self._store, self._zone, self._clock())

    def resume(self, request: wire.PauseRequest) -> dict[str, Any]:
        request = without_secrets(request, self._redactor)
        return pausing.resume(request, self._store, self._zone, self._clock())

    def heard(self, request: wire.CaptureRequest, answer: wire.CaptureResponse) -> None:
        """After every stored turn: a "forget that" in it is noted, or carried out. Raises StoreError."""
        wish = note_wish(request, answer, self._store, self._clock())
        if wish is not None and self._auto:
            self._in_background(lambda: self._desk.forget(wire.ForgetRequest(pending=True, yes=True)))

    def _run(self) -> None:
        while True:
            try:
                self._desk.finish_pending()
            except (WorkerError, OSError) as error:
                log.warning("a forgetting is not finished and is tried again: %s", error)
            except Exception:  # top of the thread: it must outlive every defect
                log.exception("a forgetting is tried again after a defect")
            if self._stopping.wait(AGAIN_SECONDS):
                return

    def _owner(self) -> Owner:
        return Owner(self._store, self._zone, self._max_scenes, self._clock())

    def _changed(self, answer: dict[str, Any]) -> dict[str, Any]:
        self._wake()
        return answer

    def _in_background(self, work: Callable[[], object]) -> None:
        def run() -> None:
            try:
                work()
            except NotFound:
                log.info("nothing was left to forget")
            except (WorkerError, OSError) as error:
                log.warning("a forgetting is not finished and is tried again: %s", error)

        threading.Thread(target=run, name="forgetting", daemon=True).start()
