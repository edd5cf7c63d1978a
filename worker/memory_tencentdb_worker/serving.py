"""Serves the HTTP app on the worker's socket, and decides when the worker leaves because nobody needs it."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from memory_tencentdb.protocol import HELLO
from memory_tencentdb_worker.api.access import LOCAL, Access
from memory_tencentdb_worker.config.model import Server
from memory_tencentdb_worker.last_exit import IDLE, LOST, SIZE
from memory_tencentdb_worker.peer import is_own

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp, Receive, Scope, Send

logger = logging.getLogger(__name__)

REQUEST_GRACE_SECONDS = 3
"""How long running requests may go on after a stop."""

KEEP_ALIVE_SECONDS = 75

LONGEST_LOOK_SECONDS = 2.0

BETWEEN_REQUESTS_SECONDS = 0.1

WORK_GRACE_SECONDS = 30.0
"""A worker that is to leave lets the job at hand finish for so long; after that its lease is given back."""

EXIT_DONE = 0
EXIT_AGAIN = 75
"""EX_TEMPFAIL of sysexits.h: the worker was well and may be started again at once."""


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
    """uvicorn on sockets that are already bound. `run` blocks until `stop`, which any thread or signal may call.

    `server` says who is let in over TCP; whoever is refused does not count as activity."""

    def __init__(self, app: Activity, listening: Sequence[socket.socket | None], server: Server) -> None:
        self._sockets = [one for one in listening if one is not None]
        self._server = _Server(
            uvicorn.Config(
                Access(app, server),
                loop="asyncio",
                http=_Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                proxy_headers=False,  # else a client on this machine could name any address as its own
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=REQUEST_GRACE_SECONDS,
            )
        )

    def run(self) -> None:
        self._server.run(sockets=self._sockets)

    def stop(self) -> None:
        self._server.should_exit = True


class IdleWatch:
    """Calls `leave` with an exit code and a reason (`last_exit`) once the worker has been quiet, without a job that is
    due or running, for `limit_seconds`; or, between two requests, once it has grown beyond `most_bytes` or `lost` names
    something that it cannot be without: whoever needs it next starts it again. `look` is called each time."""

    def __init__(
        self,
        activity: Activity,
        working: Callable[[float], bool],
        limit_seconds: float,
        leave: Callable[[int, str], None],
        *,
        most_bytes: int,
        measure_bytes: Callable[[], int],
        lost: Callable[[], str],
        look: Callable[[], None],
    ) -> None:
        self._activity, self._working, self._leave, self._look = activity, working, leave, look
        self._limit_seconds, self._most_bytes, self._measure_bytes = limit_seconds, most_bytes, measure_bytes
        self._lost = lost
        self._lost_at: float | None = None
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
            self._look()
            found = self._reason_to_leave()
            if found is not None:
                self._leave(*found)
                return

    def _reason_to_leave(self) -> tuple[int, str] | None:
        if self._working(self._limit_seconds):
            self._worked_at = time.monotonic()
        unused = self._activity.quiet_seconds()
        quiet = min(unused, time.monotonic() - self._worked_at)
        if quiet >= self._limit_seconds:
            logger.info("leaving after %.0f s without a client or a due job", quiet)
            return EXIT_DONE, IDLE
        if unused <= BETWEEN_REQUESTS_SECONDS:
            return None
        size_bytes = self._measure_bytes()
        if size_bytes > self._most_bytes:
            logger.warning("leaving at %d MiB, more than the %d allowed", size_bytes >> 20, self._most_bytes >> 20)
            return EXIT_AGAIN, SIZE
        lost = self._lost()
        if lost and self._may_drop_work():
            logger.warning("leaving because %s", lost)
            return EXIT_AGAIN, LOST
        return None

    def _may_drop_work(self) -> bool:
        now = time.monotonic()
        self._lost_at = self._lost_at or now
        return now - self._lost_at > WORK_GRACE_SECONDS or not self._working(0)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[Any, None, None]:
        """Signals belong to the composition root: a stop by signal ends with exit code 0 like any other."""
        yield


class _Protocol(HttpToolsProtocol):
    """Marks what comes over the Unix socket, and drops a peer there that is another user's."""

    _local = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = transport.get_extra_info("socket")
        self._local = getattr(socket, "AF_UNIX", None) == peer.family
        try:
            if self._local and not is_own(peer):
                logger.warning("a connection of another user on the worker's socket was dropped")
                transport.abort()
        except OSError:  # the peer is gone already
            transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[LOCAL] = self._local  # type: ignore[literal-required]

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP gets the error body of every route too."""
        body = json.dumps({"error": msg, "code": "not_http"}).encode("ascii")
        head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode("ascii") + body)
        self.transport.close()
