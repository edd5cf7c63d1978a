"""A tiny worker for what the real one cannot be made to do: wrong versions, lost replies, refusals, strangers.

As a program it stands in for the worker's command, so that the supervisor is tested with real processes: it takes
`--home DIR`, listens on the home's socket and appends every request to `<home>/requests.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from memory_tencentdb import holder, locks, paths, protocol

Answer = tuple[int, dict[str, Any]] | None
"""Status and body; None closes the connection without a reply."""


class StubWorker(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, home: Path, **hello: Any) -> None:
        self.home = home
        self.data_dir = paths.default_data_dir(home)
        self.socket_path = paths.socket_path(self.data_dir)
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Callable[[dict[str, Any]], Answer]] = {}
        self.lock = threading.Lock()
        self.hello = {
            "protocol": protocol.PROTOCOL,
            "version": protocol.VERSION,
            "data_dir_id": "0" * 32,
            "data_dir": str(self.data_dir),
            "pid": os.getpid(),
            "uid": paths.user_id(),
            "state": "ok",
        } | hello
        with suppress(FileNotFoundError):
            self.socket_path.unlink()
        super().__init__(str(self.socket_path), _Handler)

    def start(self) -> StubWorker:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        with suppress(FileNotFoundError):
            self.socket_path.unlink()

    def bodies(self, route: str) -> list[dict[str, Any]]:
        with self.lock:
            return [body for asked, body in self.requests if asked == route]

    def answer(self, route: str, body: dict[str, Any]) -> Answer:
        with self.lock:
            self.requests.append((route, body))
        if route in self.answers:
            return self.answers[route](body)
        return 200, self.default_answer(route, body)

    def default_answer(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        if route == protocol.HELLO:
            return self.hello
        if route == protocol.CAPTURE:
            return {"l0_recorded": 2, "scheduler_notified": True, "turn_id": body["turn_id"], "duplicate": False}
        if route == protocol.RECALL:
            stable = "# Persona\nlikes tea" if body["query"] == "" else ""
            given = [] if body["query"] == "" else [{"id": "m_1", "tokens": 5}]
            volatile = "" if body["query"] == "" else f"- 2025-01-02 [m_1] about {body['query']}"
            return {
                "append_system_context": stable,
                "prepend_context": volatile,
                "receipt": {"given": given},
                "state": "ok",
            }
        return {"results": "- 2025-01-02 [m_1] likes tea", "total": 1, "strategy": "keyword", "items": []}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StubWorker

    def setup(self) -> None:
        super().setup()
        self.client_address = ("local", 0)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        answer = self.server.answer(self.path, body)
        if answer is None:
            self.close_connection = True
            return
        status, document = answer
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST  # noqa: N815 - the name that the base class looks for

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Lock:
    """The data directory's lock, held and labelled as the real worker does."""

    def __init__(self, data_dir: Path) -> None:
        paths.private_dir(data_dir)
        self.handle = os.open(data_dir / holder.LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        self.held = locks.try_lock(self.handle)
        if self.held:
            holder.write_holder(self.handle, holder.STARTING)

    def label(self, state: str) -> None:
        holder.write_holder(self.handle, state)


class _Program(StubWorker):
    def answer(self, route: str, body: dict[str, Any]) -> Answer:
        with self.lock, (self.home / "requests.jsonl").open("a") as file:
            file.write(json.dumps([route, body]) + "\n")
        if route == protocol.STOP:
            threading.Timer(0.05, self.stop).start()
        if (self.home / "hang").exists():
            time.sleep(float((self.home / "hang").read_text()))
        return super().answer(route, body)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--await-hello", type=float)
    parser.add_argument("--exit", type=int)
    parser.add_argument("--protocol", type=int, default=protocol.PROTOCOL)
    parser.add_argument("--version", default=protocol.VERSION)
    parser.add_argument("--delay", type=float, default=0)
    parser.add_argument("--talk", type=int, default=0)
    parser.add_argument("--deaf-to-term", action="store_true")
    options = parser.parse_args()
    with (options.home / "starts").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if options.exit is not None:
        print("the configuration is wrong: llm.apiKey")
        return options.exit
    if options.deaf_to_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    lock = _Lock(paths.default_data_dir(options.home))
    if not lock.held:
        return 0
    time.sleep(options.delay)
    worker = _Program(options.home, protocol=options.protocol, version=options.version)
    sys.stdout.write("x" * options.talk)
    lock.label(holder.SERVING)
    worker.serve_forever(poll_interval=0.01)
    worker.server_close()
    lock.label(holder.ENDED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
