"""Errors of the v2 routes, wherever they were made (access, gate, validation, service), in the original's envelope."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Message, Send

PREFIX = "/v2/"


def in_envelope(send: Send, request_id: str) -> Send:
    """A `send` that hands on what succeeded and puts an error's body into the envelope."""
    begun: list[Message] = []
    parts: list[bytes] = []

    async def send_wrapped(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            begun.append(message)
            return
        if not begun or message["type"] != "http.response.body":
            await send(message)
            return
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            body = _wrapped(b"".join(parts), begun[0]["status"], request_id)
            kept = [(name, value) for name, value in begun[0]["headers"] if name != b"content-length"]
            length = (b"content-length", str(len(body)).encode("ascii"))
            await send({**begun[0], "headers": [*kept, length]})
            await send({"type": "http.response.body", "body": body})

    return send_wrapped


def _wrapped(body: bytes, status: int, request_id: str) -> bytes:
    if not body:  # of an answer to HEAD
        return body
    said = json.loads(body)
    more = {name: value for name, value in said.items() if name not in ("error", "code", "request_id")}
    envelope = {"code": status, "message": said["error"], "request_id": request_id, "error": said["code"], **more}
    return json.dumps(envelope).encode("ascii")
