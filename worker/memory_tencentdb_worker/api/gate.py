"""The gate every request passes: bounded bodies, a bounded number at work, and one answer for the unforeseen.

Written against ASGI itself, so that a body is refused while it still arrives and nothing of it is kept.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_tencentdb import faults
from memory_tencentdb.protocol import BODY_LIMIT_BYTES, HEALTH, STOP
from memory_tencentdb_worker.api.access import REQUEST_ID
from memory_tencentdb_worker.api.errors import error_response

log = logging.getLogger(__name__)

AT_WORK = 32
IN_QUEUE = 128
"""More requests than this are answered with 429: what waits longer than its caller is work for nothing."""

READERS = 128
BODY_SECONDS = 10.0
"""Bodies are read before a request counts as one. Whoever sends half of one is left waiting for so long; when many do,
the one that has waited longest gives way."""

ARRIVED = "memory_tencentdb.arrived"
"""Key in the ASGI scope: the monotonic time at which the request came in."""

_ALWAYS_OPEN = frozenset({HEALTH, STOP})


class Gate:
    def __init__(self, app: ASGIApp, on_request: Callable[[], None]) -> None:
        self._app, self._on_request = app, on_request
        self._slots = asyncio.Semaphore(AT_WORK)
        self._inside = 0
        self._reading: dict[asyncio.Timeout, None] = {}  # in the order of their beginning

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[ARRIVED] = time.monotonic()
        if scope["path"] != HEALTH:
            self._on_request()
        try:
            body = await self._read_in_time(scope, receive)
        except ClientDisconnect:
            return  # half a request is none: nothing is done, and nobody is there to be told
        except TimeoutError:
            await _refuse_body(408, "body_timeout", "the body did not arrive in time")(scope, receive, send)
            return
        if body is None:
            message = f"a body holds at most {BODY_LIMIT_BYTES} bytes"
            await _refuse_body(413, "too_large", message)(scope, receive, send)
        elif body and not _takes_json(scope):
            await error_response(415, "not_json", "send the body as application/json")(scope, receive, send)
        else:
            await self._take_turn(scope, _replay(body, receive), send)

    async def _read_in_time(self, scope: Scope, receive: Receive) -> bytes | None:
        """Raises TimeoutError, ClientDisconnect."""
        if len(self._reading) >= READERS:
            next(iter(self._reading)).reschedule(asyncio.get_running_loop().time())
        async with asyncio.timeout(BODY_SECONDS) as limit:
            self._reading[limit] = None
            try:
                return await _read_body(scope, receive)
            finally:
                del self._reading[limit]

    async def _take_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in _ALWAYS_OPEN:
            await self._run(scope, receive, send)
            return
        if self._inside >= AT_WORK + IN_QUEUE:
            await error_response(429, "busy", "too many requests at once")(scope, receive, send)
            return
        self._inside += 1
        try:
            async with self._slots:
                faults.reach("request.received")
                await self._run(scope, receive, send)
        finally:
            self._inside -= 1

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception:  # the outermost frame of a request: answered here and logged once
            request_id = scope.get(REQUEST_ID) or secrets.token_hex(4)
            log.exception("request %s failed: %s", request_id, scope["method"])
            if not started:
                answer = error_response(500, "internal", "internal error", request_id=request_id)
                await answer(scope, receive, send)


def _refuse_body(status: int, code: str, message: str) -> Response:
    """The rest of the body would be taken for the next request: the connection ends."""
    response = error_response(status, code, message)
    response.headers["connection"] = "close"
    return response


async def _read_body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body, or None as soon as it is known to be too long. Raises ClientDisconnect."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > BODY_LIMIT_BYTES:
            return None
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        if size > BODY_LIMIT_BYTES:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that hands out the body read before, then whatever comes after it."""
    handed_out = False

    async def again() -> Message:
        nonlocal handed_out
        if handed_out:
            return await receive()
        handed_out = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _takes_json(scope: Scope) -> bool:
    """On the Unix socket any content type is read as JSON. Over TCP another type is refused: a web page may send
    `text/plain` to any port of the machine without asking."""
    headers = scope["headers"]
    kinds = [value for name, value in headers if name == b"content-type"]
    named = kinds[0].split(b";")[0].strip().lower() if kinds else b""
    if named == b"application/json" or not named:
        return True
    if scope.get("client"):
        return False
    rest = [(name, value) for name, value in headers if name != b"content-type"]
    scope["headers"] = [*rest, (b"content-type", b"application/json")]
    return True
