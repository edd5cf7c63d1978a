"""Takes over what providers had to keep on disk: at the start and every half minute, so that the turns of a host that
is gone need no other host to come."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from memory_tencentdb import wire
from memory_tencentdb.errors import ProviderError, RequestRefused, WorkerTrouble
from memory_tencentdb.outbox import Outbox
from memory_tencentdb.protocol import CAPTURE, MEMORY_WRITE
from memory_tencentdb_worker.api import bodies
from memory_tencentdb_worker.api.errors import status_of
from memory_tencentdb_worker.errors import WorkerError
from memory_tencentdb_worker.service import MemoryService

log = logging.getLogger(__name__)

PAUSE_SECONDS = 30.0
STOP_SECONDS = 2.0
BUSY = 429

Take = Callable[[dict[str, Any]], object]


class OutboxReplay:
    """May run beside any provider's replay: they exclude each other, and turn ids make the rest harmless."""

    def __init__(self, outbox: Outbox, service: MemoryService) -> None:
        self._outbox = outbox
        capture = TypeAdapter[wire.CaptureRequest](bodies.Capture)
        memory_write = TypeAdapter[wire.MemoryWriteRequest](bodies.MemoryWrite)
        self._routes: Mapping[str, Take] = {
            CAPTURE: lambda body: service.capture(capture.validate_python(body)),
            MEMORY_WRITE: lambda body: service.memory_write(memory_write.validate_python(body)),
        }
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox-replay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finishes the line at hand. Safe to call twice, and without `start`."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)

    def take_over(self) -> int:
        """How many lines were taken or set aside. Raises ProviderError or OSError when the rest has to wait."""
        return self._outbox.replay(self._send, lambda: not self._stopped.is_set())

    def _run(self) -> None:
        while True:
            try:
                taken = self.take_over()
            except (ProviderError, OSError) as error:
                log.warning("turns wait in the outbox: %s", error)
            except Exception:  # top of a thread: the lines are kept, and the next look tries again
                log.exception("the outbox could not be taken over")
            else:
                if taken:
                    log.info("%d kept turns taken over from the outbox", taken)
            if self._stopped.wait(PAUSE_SECONDS):
                return

    def _send(self, route: str, body: dict[str, Any]) -> None:
        """The provider's words for what the worker says to a request."""
        take = self._routes.get(route)
        if take is None:
            raise RequestRefused(404, "not_found", f"turns are not sent to {route}")
        try:
            take(body)
        except ValidationError as error:
            named = ", ".join(sorted({str(problem["loc"][0]) for problem in error.errors() if problem["loc"]}))
            raise RequestRefused(422, "invalid_fields", f"these fields cannot be used: {named}") from error
        except WorkerError as error:
            status = status_of(error)
            kind = WorkerTrouble if status >= 500 or status == BUSY else RequestRefused
            raise kind(status, error.code, str(error)) from error
