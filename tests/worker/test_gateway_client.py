"""The Python client against a real gateway, over TCP and over the Unix socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from memory_tencentdb.errors import RequestRefused, WorkerSilent, WorkerTrouble, WorkerUnreachable
from memory_tencentdb_worker.client import MemoryClient
from processes import FAST_PIPELINE, WorkerProcess

KEY = "k-client"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def answering(text: bytes) -> Iterator[str]:
    """A server that gives one answer, or, with an empty one, none."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        line, _ = listening.accept()
        with line:
            line.recv(65536)
            line.sendall(text)
            if not text:
                line.recv(65536)  # until the client gives up

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    thread.join(10)
    listening.close()


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    config = {"server": {"port": free_port(), "apiKey": KEY}, "memory": {"pipeline": FAST_PIPELINE}}
    process = WorkerProcess(tmp_path_factory.mktemp("client") / "home", config)
    process.start()
    yield process
    process.stop()


@pytest.fixture(params=["tcp", "unix"])
def memory(worker: WorkerProcess, request: pytest.FixtureRequest) -> Iterator[MemoryClient]:
    url = worker.get("/v1/status").json()["worker"]["gateway"]
    way = {"base_url": url, "api_key": KEY} if request.param == "tcp" else {"socket": worker.endpoint["socket"]}
    with MemoryClient(**way) as made:
        yield made


def test_a_turn_is_stored_found_and_recalled(worker: WorkerProcess, memory: MemoryClient) -> None:
    assert memory.health()["status"] == "ok"
    stored = memory.capture("I live in Porto.", "Noted.", session_key="c1", turn_id="t1")
    again = memory.capture("I live in Porto.", "Noted.", session_key="c1", turn_id="t1")
    assert stored.turn_id == again.turn_id == "t1"
    assert again.duplicate
    assert memory.end_session("c1").flushed
    worker.flush()
    recalled = memory.recall("Where do I live?", session_key="c2")
    assert "Porto" in recalled.context
    assert recalled.receipt.used_tokens > 0
    assert "Porto" in memory.search_memories("Porto", limit=3).items[0].text
    assert memory.search_conversations("Porto", session_key="c1").total >= 1


def test_what_is_refused_says_why(memory: MemoryClient) -> None:
    with pytest.raises(RequestRefused) as refused:
        memory.search_memories("x", type="gossip")
    assert refused.value.status == 400
    assert "gossip" in refused.value.message


def test_a_wrong_key_is_refused_and_the_right_one_is_found_in_the_environment(
    worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = worker.get("/v1/status").json()["worker"]["gateway"]
    with MemoryClient(url, api_key="wrong") as memory, pytest.raises(RequestRefused) as refused:
        memory.recall("x", session_key="s")
    assert (refused.value.status, refused.value.code) == (401, "unauthorized")
    monkeypatch.setenv("TDAI_GATEWAY_API_KEY", f" {KEY}\n")
    with MemoryClient(url) as memory:
        assert memory.recall("x", session_key="s").state


def test_who_does_not_answer_is_told_apart_from_who_is_away() -> None:
    with answering(b"") as url, MemoryClient(url) as memory, pytest.raises(WorkerSilent):
        memory.health()
    with MemoryClient(f"http://127.0.0.1:{free_port()}") as memory, pytest.raises(WorkerUnreachable):
        memory.health()


def test_trouble_and_strangers_are_trouble() -> None:
    busy = (
        b"HTTP/1.1 429 Busy\r\nretry-after: 7\r\ncontent-length: 32\r\n\r\n" + b'{"error": "busy", "code": "busy"}'[:32]
    )
    for text, wait in ((busy, 7.0), (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhey!", None)):
        with answering(text) as url, MemoryClient(url) as memory, pytest.raises(WorkerTrouble) as trouble:
            memory.health()
        assert trouble.value.retry_after_seconds == wait
