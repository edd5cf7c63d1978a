"""Who may ask: the outermost frame of every request. The Unix socket is open to its own user; over TCP a client needs
the key, and is slowed down when it asks too often. Gives each request its id."""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING

from starlette.responses import Response

from memory_tencentdb.protocol import HEALTH, HELLO, STOP
from memory_tencentdb_worker.api.cors import CrossOrigin
from memory_tencentdb_worker.api.errors import error_response
from memory_tencentdb_worker.api.rate import RateLimit
from memory_tencentdb_worker.api.v2_errors import PREFIX as V2
from memory_tencentdb_worker.api.v2_errors import in_envelope
from memory_tencentdb_worker.config.checks import is_loopback
from memory_tencentdb_worker.config.model import Server

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL = "memory_tencentdb.local"
"""Key in the ASGI scope: true for a connection on the Unix socket whose peer was looked at. Whatever lacks it came
over TCP."""

REQUEST_ID = "memory_tencentdb.request_id"

LOCAL_ONLY = frozenset({HELLO, STOP})
"""A handshake chooses the model that reads the conversations, a stop ends the worker: neither is for another host."""

_OWN_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class Access:
    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app, self._host = app, server.host
        key = server.api_key.get_secret_value().strip()
        self._key_hash = _hash(key.encode("utf-8")) if key else b""
        self._cors = CrossOrigin(server.cors_origins)
        self._rate = RateLimit()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[REQUEST_ID] = _request_id(scope)
        more = [(b"x-request-id", scope[REQUEST_ID].encode("ascii"))]
        if not scope.get(LOCAL):
            more += self._cors.headers(_header(scope, b"origin"))
        answer = Response(status_code=204) if scope["method"] == "OPTIONS" else self._refusal(scope)
        send = _with_headers(send, more)
        if scope["path"].startswith(V2):
            send = in_envelope(send, scope[REQUEST_ID])
        await (answer or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        if scope.get(LOCAL) or (scope["path"] == HEALTH and scope["method"] in ("GET", "HEAD")):
            return None
        client = scope.get("client")
        if not self._rate.admit(client[0] if client else "", time.monotonic()):
            return _refuse(429, "rate_limited", "this client asks too often")
        if scope["path"] in LOCAL_ONLY:
            return _refuse(403, "local_only", "this route is there on the worker's own socket only")
        return self._refuse_stranger(scope) if self._key_hash else self._refuse_web_page(scope)

    def _refuse_stranger(self, scope: Scope) -> Response | None:
        scheme, _, token = (_header(scope, b"authorization") or b"").partition(b" ")
        if scheme.lower() != b"bearer":
            return _refuse(401, "unauthorized", "Unauthorized: missing Bearer token")
        if not hmac.compare_digest(_hash(token.strip()), self._key_hash):
            return _refuse(401, "unauthorized", "Unauthorized: invalid token")
        return None

    def _refuse_web_page(self, scope: Scope) -> Response | None:
        """Without a key the port is for programs of this machine. Any page open in a browser there could send to it
        too: it gives itself away by its origin, or by the name under which it reached the port."""
        origin = _header(scope, b"origin")
        if origin is not None and not self._cors.allows(origin):
            return _refuse(403, "origin", "this origin is not in server.corsOrigins")
        name = _host_name(_header(scope, b"host") or b"")
        if not is_loopback(name) and name != self._host:
            return _refuse(403, "host", "without a key this port is reached as localhost only")
        return None


def _refuse(status: int, code: str, message: str) -> Response:
    """The body was not read: its rest would be taken for the next request, so the connection ends."""
    response = error_response(status, code, message)
    response.headers["connection"] = "close"
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


def _request_id(scope: Scope) -> str:
    """The caller's own, when it is one that can stand in a log."""
    given = _header(scope, b"x-request-id")
    if given is not None and _OWN_ID.fullmatch(given):
        return given.decode("ascii")
    return f"req-{secrets.token_hex(8)}"


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for known, value in scope["headers"] if known == name), None)


def _host_name(host: bytes) -> str:
    text = host.decode("latin-1").lower()
    return text.partition("]")[0].strip("[") if text.startswith("[") else text.partition(":")[0]


def _hash(text: bytes) -> bytes:
    """Of one length, so that a comparison tells nothing of the key's."""
    return sha256(text).digest()


def _with_headers(send: Send, more: Iterable[tuple[bytes, bytes]]) -> Send:
    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *more]
        await send(message)

    return send_more
