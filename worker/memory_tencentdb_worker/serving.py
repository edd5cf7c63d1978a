"""Serves the HTTP app on the worker's socket, and decides when the worker leaves because nobody needs it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import uvicorn

from memory_tencentdb.protocol import HELLO

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send

logger = logging.getLogger(__name__)

REQUEST_GRACE_SECONDS = 3
"""How long running requests may go on after a stop."""

KEEP_ALIVE_SECONDS = 75

LONGEST_LOOK_SECONDS = 15.0


class Activity:
    """The app with a count of its requests: when was the worker last of use to somebody?"""

    def __init__(self, app: ASGIApp, on_hello: Callable[[], None]) -> None:
        self._app, self._on_hello = app, on_hello
        self._running = 0
        self._last_at = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1
            self._last_at = time.monotonic()
        if scope.get("path") == HELLO:
            self._on_hello()

    def quiet_seconds(self) -> float:
        """Since the last request ended; 0 while one is running."""
        return 0.0 if self._running else time.monotonic() - self._last_at


class Listener:
    """uvicorn on a socket that is already bound. `run` blocks until `stop`, which any thread or signal may call."""

    def __init__(self, app: Activity, listening: socket.socket) -> None:
        self._socket = listening
        self._server = _Server(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=REQUEST_GRACE_SECONDS,
            )
        )

    def run(self) -> None:
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        self._server.should_exit = True


class IdleWatch:
    """Calls `leave` once the worker has been quiet, without a job that is due or running, for `limit_seconds`."""

    def __init__(
        self, activity: Activity, working: Callable[[float], bool], limit_seconds: float, leave: Callable[[], None]
    ) -> None:
        self._activity, self._working, self._leave = activity, working, leave
        self._limit_seconds = limit_seconds
        self._worked_at = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="idle-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=2)

    def _watch(self) -> None:
        pause = min(max(self._limit_seconds / 4, 0.2), LONGEST_LOOK_SECONDS)
        while not self._stopped.wait(pause):
            if self._working(self._limit_seconds):
                self._worked_at = time.monotonic()
            quiet = min(self._activity.quiet_seconds(), time.monotonic() - self._worked_at)
            if quiet >= self._limit_seconds:
                logger.info("leaving after %.0f s without a client or a due job", quiet)
                self._leave()
                return


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[Any, None, None]:
        """Signals belong to the composition root: a stop by signal ends with exit code 0 like any other."""
        yield
