"""Requests that are half, endless or not HTTP at all, on the socket of a real worker."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from memory_tencentdb_worker.api.gate import AT_WORK, BODY_SECONDS, IN_QUEUE
from processes import WorkerProcess

HALF = b"POST /capture HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    process = WorkerProcess(tmp_path_factory.mktemp("bodies") / "home")
    process.start()
    yield process
    process.stop()


def send(stack: ExitStack, worker: WorkerProcess, data: bytes) -> socket.socket:
    line = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    line.connect(str(Path(worker.endpoint["socket"])))  # waits while many connect at once; with a time limit it fails
    line.settimeout(BODY_SECONDS + 10)
    line.sendall(data)
    return line


def answer(line: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body, read until the worker closes the line."""
    said = b""
    while part := line.recv(65_536):
        said += part
    head, _, body = said.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    return int(first.split()[1]), dict(header.lower().split(": ", 1) for header in rest), body


def test_half_sent_bodies_keep_nobody_out_and_end_by_themselves(worker: WorkerProcess) -> None:
    with ExitStack() as stack:
        began = time.monotonic()
        for _ in range(AT_WORK + IN_QUEUE + 40):
            send(stack, worker, HALF)
        for number in range(3):
            worker.capture(f"I own {number} boats.", session="s", turn_id=f"t{number}")
        assert time.monotonic() - began < BODY_SECONDS, "not because the halves had given up"
        newest = send(stack, worker, HALF)  # after all others were seen, so that it need not give way to any
        status, headers, body = answer(newest)
        assert (status, headers["connection"]) == (408, "close")
        assert json.loads(body)["code"] == "body_timeout"


@pytest.mark.parametrize("data", [b"garbage\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/9.9\r\n\r\n"])
def test_what_is_not_http_is_answered_like_any_other_mistake(worker: WorkerProcess, data: bytes) -> None:
    with ExitStack() as stack:
        status, headers, body = answer(send(stack, worker, data))
    assert (status, headers["content-type"]) == (400, "application/json")
    assert set(json.loads(body)) == {"error", "code"}


def test_health_can_be_asked_for_its_head(worker: WorkerProcess) -> None:
    with worker.client() as client:
        response = client.head("/health")
    assert (response.status_code, response.content) == (200, b"")


def test_a_parameter_that_does_not_exist_is_refused_and_named(worker: WorkerProcess) -> None:
    response = worker.get("/v1/inspect?level=L0&rolle=user")
    assert (response.status_code, response.json()["code"]) == (400, "invalid")
    assert "rolle" in response.json()["error"]
    assert worker.get("/v1/inspect?level=L0&user_id=&sort=asc").status_code == 200
