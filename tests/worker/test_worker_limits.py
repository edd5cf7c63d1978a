"""What a worker does about its own size, its own output and the turns that providers could not deliver."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_tencentdb import holder
from memory_tencentdb.outbox import Outbox
from memory_tencentdb.protocol import CAPTURE, MEMORY_WRITE, STATUS
from memory_tencentdb_worker.serving import EXIT_AGAIN
from processes import WorkerProcess


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    process = WorkerProcess(tmp_path / "home")
    yield process
    process.stop()


def wait_until_empty(outbox: Outbox) -> None:
    until = time.monotonic() + 10
    while outbox.pending() and time.monotonic() < until:
        time.sleep(0.05)
    assert outbox.pending() == 0


def test_a_worker_that_has_grown_too_big_leaves_between_requests_and_may_be_started_again(
    worker: WorkerProcess,
) -> None:
    worker.env |= {"MEMORY_TENCENTDB_MAX_RSS_MB": "1", "MEMORY_TENCENTDB_IDLE_SECONDS": "4"}
    worker.start()
    worker.capture("I live in Lisbon.")
    assert worker.process is not None
    assert worker.process.wait(10) == EXIT_AGAIN
    left = holder.read_holder(worker.home / "data")
    assert left is not None
    assert left.state == holder.ENDED
    assert "more than the 1 allowed" in (worker.home / "logs" / "worker.log").read_text()
    del worker.env["MEMORY_TENCENTDB_MAX_RSS_MB"]
    worker.start()
    assert worker.get(STATUS).json()["counts"]["turns"] == 1


def test_an_output_file_that_has_grown_too_long_is_emptied_and_a_strangers_is_not(tmp_path: Path) -> None:
    code = "import os; from memory_tencentdb_worker.logs import trim_output; os.write(2, b'x' * 200); trim_output(100)"
    for mode, left in (("ab", 0), ("wb", 200)):
        path = tmp_path / f"output-{mode}"
        with path.open(mode) as stream:
            subprocess.run([sys.executable, "-c", code], stderr=stream, check=True, env=WorkerProcess(tmp_path).env)
        assert path.read_bytes().count(b"x") == left


def test_kept_turns_are_taken_over_in_order_and_what_cannot_be_taken_is_set_aside(worker: WorkerProcess) -> None:
    outbox = Outbox(worker.home / "outbox", nonce="gone", created_ms=1)
    address = {"session_key": "s1", "session_id": "s1", "user_id": ""}
    for number in range(3):
        body = {**address, "user_content": f"fact {number}", "assistant_content": "ok", "turn_id": f"t-{number}"}
        outbox.append(f"t-{number}", CAPTURE, body, 1)
    outbox.append("t-x", CAPTURE, {"user_content": "no session"}, 1)
    outbox.append("t-y", "/v1/stop", {}, 1)
    write = {**address, "action": "add", "target": "user", "content": "likes tea", "write_id": "w-1"}
    outbox.append("w-1", MEMORY_WRITE, write, 1)
    assert outbox.pending() == 6
    worker.start()
    wait_until_empty(outbox)
    rows = worker.get("/v1/inspect?level=L0&sort=asc").json()["data"]
    said = [row["content"] for row in rows if row["role"] == "user"]
    assert said == ["fact 0", "fact 1", "fact 2", "likes tea"]
    refused = (worker.home / "outbox" / "refused.jsonl").read_text().splitlines()
    assert [json.loads(json.loads(line)["line"])["id"] for line in refused] == ["t-x", "t-y"]
    assert worker.get(STATUS).json()["outbox"] == {"turns": 0}
    assert worker.get(STATUS).json()["counts"]["atoms"] == 1


def test_a_data_directory_that_is_not_the_homes_own_does_not_take_its_turns(
    worker: WorkerProcess, tmp_path: Path
) -> None:
    outbox = Outbox(worker.home / "outbox", nonce="gone", created_ms=1)
    outbox.append("t-1", CAPTURE, {"session_key": "s", "user_content": "a", "assistant_content": "b"}, 1)
    command = [sys.executable, "-m", "memory_tencentdb_worker", "run", "--home", str(worker.home)]
    elsewhere = worker.env | {"TDAI_DATA_DIR": str(tmp_path / "elsewhere"), "MEMORY_TENCENTDB_IDLE_SECONDS": "1"}
    assert subprocess.run(command, env=elsewhere, capture_output=True, check=False, timeout=30).returncode == 0
    assert outbox.pending() == 1
