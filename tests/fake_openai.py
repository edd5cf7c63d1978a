"""A small model and embedding endpoint that speaks the OpenAI protocol: every answer is computed from the request.

In a test:    with running(dim=64) as fake: ... fake.url, fake.script("chat", ["hello"]), fake.fail("http", status=500)
By hand:      python tests/fake_openai.py --port 0     (prints the base URL as its first line)
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fake_openai_answers as answers

CHAT, EMBED = "chat", "embeddings"
JSON_TYPE = "application/json"


@dataclass
class Recorded:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    task: str  # of the marker line; "chat" without one; "embeddings"
    system: str = ""
    user: str = ""


@dataclass
class Fault:
    """A planned misbehaviour; fires `times` times (-1: always) for requests of `task` ("any", "llm", one task)."""

    mode: str
    times: int
    task: str
    params: dict[str, Any]

    def matches(self, request: Recorded) -> bool:
        if self.times == 0:
            return False
        if self.task == "llm":
            return request.task != EMBED
        if self.task not in ("any", request.task):
            return False
        return self._applies(request.body)

    def _applies(self, body: dict[str, Any]) -> bool:
        """Modes that reject only some requests let the others pass without being used up."""
        if self.mode == "unsupported_param":
            return any(name in body for name in self.params["params"])
        inputs = answers.inputs_of(body)
        if self.mode == "max_inputs":
            return len(inputs) > int(self.params["n"])
        if self.mode == "max_chars":
            return any(len(text) > int(self.params["n"]) for text in inputs)
        return True


@dataclass
class Reply:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = JSON_TYPE


class FakeEndpoint:
    """The running endpoint. `script` queues literal answers for a task; `fail` plans misbehaviour; both are first in,
    first out. `requests` holds everything that arrived."""

    def __init__(self, *, dim: int = 64, api_key: str = "", latency_seconds: float = 0.0, port: int = 0) -> None:
        self.dim, self.api_key, self.latency_seconds = dim, api_key, latency_seconds
        self.requests: list[Recorded] = []
        self._scripts: dict[str, list[Any]] = {}
        self._faults: list[Fault] = []
        self._guard = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.endpoint = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def script(self, task: str, replies: list[Any]) -> None:
        """Texts are sent as they are, anything else as JSON; then the computed answers go on."""
        with self._guard:
            self._scripts.setdefault(task, []).extend(replies)

    def fail(self, mode: str, times: int = 1, task: str = "any", **params: Any) -> None:
        """Modes: http{status, code, message, retry_after} hang{seconds} reset html{status} empty_body null_content
        empty_choices content_filter refusal prose malformed truncated{keep} reasoning_only unsupported_param{params};
        for embeddings: wrong_dim{dim} zero nan null strings fewer shuffled base64 max_inputs{n} max_chars{n}."""
        with self._guard:
            self._faults.append(Fault(mode, times, task, params))

    def heal(self) -> None:
        """Drops every planned fault and scripted answer."""
        with self._guard:
            self._faults.clear()
            self._scripts.clear()

    def calls(self, task: str) -> list[Recorded]:
        with self._guard:
            return [request for request in self.requests if request.task == task]

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    # ------------------------------------------------------------------ answering

    def respond(self, request: Recorded) -> Reply | None:
        """None: the connection is cut."""
        with self._guard:
            self.requests.append(request)
            fault = next((f for f in self._faults if f.matches(request)), None)
            if fault is not None:
                fault.times -= 1 if fault.times > 0 else 0
        if self.latency_seconds:
            self._closing.wait(self.latency_seconds)
        if self.api_key and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return _error(401, "invalid_api_key", "Incorrect API key provided.")
        if fault is not None:
            early = self._misbehave(fault, request)
            if early is not _ON:
                return early
        if request.task == EMBED:
            answer = answers.embeddings(request.body, self.dim, fault.mode if fault else "", fault and fault.params)
            return _json(answers.as_zeroentropy(answer) if request.path.endswith("/models/embed") else answer)
        return _json(self._chat(request, fault))

    def _misbehave(self, fault: Fault, request: Recorded) -> Reply | None:
        mode, params = fault.mode, fault.params
        if mode == "hang":
            self._closing.wait(float(params.get("seconds", 60)))
            return None
        if mode == "reset":
            return None
        if mode == "http":
            status = int(params.get("status", 500))
            text = str(params.get("message", f"planned failure {status}"))
            reply = _error(status, str(params.get("code", "server_error")), text)
            if "retry_after" in params:
                reply.headers["Retry-After"] = str(params["retry_after"])
            return reply
        if mode == "html":
            return Reply(int(params.get("status", 200)), b"<html><body>Bad gateway</body></html>", {}, "text/html")
        if mode == "empty_body":
            return Reply(200, b"")
        if mode == "unsupported_param":
            name = next(name for name in params["params"] if name in request.body)
            return _error(400, "unsupported_parameter", f"Unsupported parameter: '{name}' is not supported.")
        if mode == "max_inputs":
            return _error(400, "invalid_request_error", f"at most {params['n']} inputs are allowed")
        if mode == "max_chars":
            return _error(400, "invalid_request_error", f"input is longer than {params['n']} characters")
        return _ON

    def _chat(self, request: Recorded, fault: Fault | None) -> dict[str, Any]:
        with self._guard:
            waiting = self._scripts.get(request.task)
            scripted = waiting.pop(0) if waiting else None
        answer = answers.compute(request.task, request.user) if scripted is None else scripted
        if scripted is None and isinstance(answer, list) and "response_format" in request.body:
            answer = {answers.WRAPPERS[request.task]: answer}
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return answers.completion(
            request.body,
            request.system + request.user,
            text,
            fault.mode if fault else "",
            fault.params if fault else {},
        )


_ON = Reply(0, b"")  # "no early reply": compute the answer and let the fault's mode bend it


def _json(document: dict[str, Any]) -> Reply:
    return Reply(200, json.dumps(document).encode())


def _error(status: int, code: str, message: str) -> Reply:
    body = {"error": {"message": message, "type": code, "code": code, "param": None}}
    return Reply(status, json.dumps(body).encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    endpoint: FakeEndpoint

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is part of the tests, not worth a trace."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    server: _Server

    def do_GET(self) -> None:
        self._send(Reply(200, b'{"object": "list", "data": [{"id": "fake-model", "object": "model"}]}'))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw)
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.path.split("?")[0].endswith(("/embeddings", "/models/embed")):
            request = Recorded(self.path, headers, body, EMBED)
        else:
            system, user = answers.texts_of(body)
            request = Recorded(self.path, headers, body, answers.task_of(system), system, user)
        reply = self.server.endpoint.respond(request)
        if reply is None:
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        self._send(reply)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def running(**options: Any) -> Iterator[FakeEndpoint]:
    """Serves on loopback until the block ends. Options: dim, api_key, latency_seconds, port."""
    endpoint = FakeEndpoint(**options)
    try:
        yield endpoint
    finally:
        endpoint.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--api-key", default="")
    options = parser.parse_args()
    with running(port=options.port, dim=options.dim, api_key=options.api_key) as fake:
        print(fake.url, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
