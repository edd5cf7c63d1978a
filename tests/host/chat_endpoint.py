"""A scripted model for the real host: answers every chat, streamed when asked, and keeps the requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MARKER = "[memory-tencentdb task="
NOTHING = '{"scenes": [], "decisions": [], "operations": [], "sections": []}'


class ChatEndpoint(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def chats(self) -> list[dict[str, Any]]:
        """The host's own requests, without those of the worker."""
        return [body for body in self.requests if not _is_ours(body)]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is not this endpoint's business."""


class _Handler(BaseHTTPRequestHandler):
    server: ChatEndpoint

    def do_GET(self) -> None:
        self._send("application/json", json.dumps({"object": "list", "data": [{"id": "fake-model"}]}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        self.server.requests.append(body)
        text = NOTHING if _is_ours(body) else "Noted."
        if body.get("stream"):
            chunks = [_document({"delta": {"role": "assistant", "content": text}, "finish_reason": None}, "chunk")]
            chunks.append(_document({"delta": {}, "finish_reason": "stop"}, "chunk"))
            lines = [*map(json.dumps, chunks), "[DONE]"]
            self._send("text/event-stream", "".join(f"data: {line}\n\n" for line in lines))
        else:
            message = {"role": "assistant", "content": text}
            self._send("application/json", json.dumps(_document({"message": message, "finish_reason": "stop"}, "")))

    def _send(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _document(choice: dict[str, Any], kind: str) -> dict[str, Any]:
    name = "chat.completion" + (f".{kind}" if kind else "")
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "c",
        "object": name,
        "created": 0,
        "model": "fake-model",
        "choices": [{"index": 0} | choice],
        "usage": usage,
    }


def _is_ours(body: dict[str, Any]) -> bool:
    return any(str(message.get("content")).startswith(MARKER) for message in body.get("messages") or [])


@contextmanager
def running() -> Iterator[ChatEndpoint]:
    endpoint = ChatEndpoint()
    thread = threading.Thread(target=endpoint.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield endpoint
    endpoint.shutdown()
    endpoint.server_close()
    thread.join()
