"""HTTP/1.1 to the worker over its Unix socket, with a deadline that covers the whole exchange.

A worker that is stopped by a signal still accepts connections and never answers, and one that drips bytes resets an
ordinary socket timeout with each: so every single read and write gets only what is left of the deadline. Proxies and
host names play no part (traps B23, B24).
"""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import faults
from .errors import RequestRefused, WorkerSilent, WorkerStranger, WorkerTrouble, WorkerUnreachable

if TYPE_CHECKING:
    import socket
    from http.client import HTTPResponse

CONNECT_SECONDS = 0.25
"""Connecting to a local socket takes microseconds; only a full backlog makes it wait."""

IDLE_CONNECTIONS = 4
BUSY_STATUS = 429


def open_socket(path: Path, seconds: float) -> tuple[socket.socket, str]:
    """Connects to the worker; returns the socket and the token to send ("" for none).

    The only place that knows how the platforms differ: without Unix sockets (Windows) the worker listens on loopback
    TCP and leaves `<path>.tcp`, readable by its owner only, with the port and a token on two lines.
    """
    import socket

    token = os.environ.get("MEMORY_TENCENTDB_GATEWAY_API_KEY") or os.environ.get("TDAI_GATEWAY_API_KEY") or ""
    if sys.platform == "win32":
        port, token = path.with_suffix(".tcp").read_text(encoding="ascii").split()[:2]
        return socket.create_connection(("127.0.0.1", int(port)), timeout=seconds), token
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.settimeout(max(seconds, 0.001))
        link.connect(os.fspath(path))
    except OSError:
        link.close()
        raise
    return link, token


def listens(path: Path, seconds: float) -> bool:
    """Whether somebody takes connections there, however busy or frozen."""
    try:
        link, _ = open_socket(path, seconds)
    except (OSError, ValueError):
        return False
    link.close()
    return True


class _TimedReader(io.RawIOBase):
    """Reads from a socket, each time with what is left of the deadline."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._connection.receive_into(buffer)


class Connection:
    """One keep-alive connection, used by one request at a time."""

    def __init__(self, link: socket.socket, token: str) -> None:
        self._link, self._token = link, token
        self._deadline = 0.0

    def exchange(self, method: str, route: str, body: bytes, deadline: float) -> tuple[HTTPResponse, bytes]:
        self._deadline = deadline
        self._arm()
        try:
            self._link.sendall(self._head(method, route, len(body)) + body)
        except ConnectionError as error:
            return self._early_answer(method, error)
        faults.reach("client.sent")
        return self._receive(method)

    def _early_answer(self, method: str, cut_off: ConnectionError) -> tuple[HTTPResponse, bytes]:
        """A worker that refuses a body closes the line while it is still being sent, and has said why. Raises `cut_off`
        when it has not."""
        from http.client import HTTPException

        try:
            return self._receive(method)
        except (ConnectionError, HTTPException):
            raise cut_off from None

    def _receive(self, method: str) -> tuple[HTTPResponse, bytes]:
        from http.client import HTTPResponse

        response = HTTPResponse(self, method=method)  # type: ignore[arg-type] # it only calls makefile
        response.begin()
        return response, response.read()

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self))

    def receive_into(self, buffer: Any) -> int:
        self._arm()
        return self._link.recv_into(buffer)

    def close(self) -> None:
        self._link.close()

    def _arm(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        self._link.settimeout(left)

    def _head(self, method: str, route: str, size: int) -> bytes:
        lines = [
            f"{method} {route} HTTP/1.1",
            "Host: worker",
            "Content-Type: application/json",
            f"Content-Length: {size}",
        ]
        if self._token:
            lines.append(f"Authorization: Bearer {self._token}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


class Client:
    """Requests to the worker behind `find_socket()`, which is asked again for each new connection.

    Safe for any thread. A kept connection that the worker has closed meanwhile is replaced once without a word: every
    route is idempotent (turns and writes carry their ids), so sending twice does no harm.
    """

    def __init__(self, find_socket: Callable[[], Path]) -> None:
        self._find_socket = find_socket
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._process = os.getpid()

    def post(self, route: str, body: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Raises WorkerUnreachable (WorkerSilent, WorkerStranger), WorkerTrouble or RequestRefused."""
        return self._request("POST", route, encode(body), seconds)

    def get(self, route: str, seconds: float) -> dict[str, Any]:
        return self._request("GET", route, b"", seconds)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _request(self, method: str, route: str, body: bytes, seconds: float) -> dict[str, Any]:
        from http.client import HTTPException

        deadline = time.monotonic() + seconds
        try:
            response, answer = self._exchange(method, route, body, deadline)
        except TimeoutError as error:
            raise WorkerSilent(f"{route}: no answer within {seconds:.2f} s") from error
        except (OSError, ValueError) as error:
            raise WorkerUnreachable(f"{route}: {error}") from error
        except HTTPException as error:
            raise WorkerStranger(f"{route}: the answer is not HTTP ({type(error).__name__})") from error
        return _read_answer(route, response, answer)

    def _exchange(self, method: str, route: str, body: bytes, deadline: float) -> tuple[HTTPResponse, bytes]:
        kept = self._take()
        if kept is not None:
            try:
                return self._run(kept, method, route, body, deadline)
            except ConnectionError:
                pass  # closed by the worker while it lay idle: a fresh connection tells whether the worker lives
        link, token = open_socket(self._find_socket(), min(CONNECT_SECONDS, deadline - time.monotonic()))
        return self._run(Connection(link, token), method, route, body, deadline)

    def _run(
        self, connection: Connection, method: str, route: str, body: bytes, deadline: float
    ) -> tuple[HTTPResponse, bytes]:
        try:
            response, answer = connection.exchange(method, route, body, deadline)
        except BaseException:
            connection.close()
            raise
        self._put(connection, keep=not response.will_close)
        return response, answer

    def _take(self) -> Connection | None:
        with self._lock:
            if self._process != os.getpid():  # a forked child must not talk on its parent's connections
                self._idle, self._process = [], os.getpid()
            return self._idle.pop() if self._idle else None

    def _put(self, connection: Connection, *, keep: bool) -> None:
        with self._lock:
            if keep and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()


def encode(body: dict[str, Any]) -> bytes:
    """JSON bytes; half a surrogate pair, which UTF-8 cannot hold, travels as an escape."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":")).encode("ascii")


def _read_answer(route: str, response: HTTPResponse, body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        answer = {}
        if response.status < 400:
            raise WorkerStranger(f"{route}: the answer is not a JSON object")
    if response.status < 400:
        return answer
    code, message = str(answer.get("code") or "error"), str(answer.get("error") or "no reason given")
    if response.status >= 500 or response.status == BUSY_STATUS:
        raise WorkerTrouble(response.status, code, message, _retry_after(response))
    raise RequestRefused(response.status, code, message)


def _retry_after(response: HTTPResponse) -> float | None:
    try:
        return float(response.getheader("Retry-After") or "")
    except ValueError:
        return None
