"""Another process at the same database: captures wait or are refused with a name, nothing else stops (traps B85, B87,
B118)."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_tencentdb_worker.store.connection import BUSY_TIMEOUT_MS
from processes import FAST_PIPELINE, WorkerProcess

HOLDER = (
    "import sys, apsw\n"
    "connection = apsw.Connection(sys.argv[1])\n"
    "connection.execute('begin immediate')\n"
    "print('held', flush=True)\n"
    "sys.stdin.readline()\n"
    "connection.execute('rollback')\n"
)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    running = WorkerProcess(tmp_path / "home", {"memory": {"pipeline": FAST_PIPELINE}})
    running.start()
    running.capture("My boat is called Halcyon.")
    running.flush()
    yield running
    running.stop()


@contextmanager
def write_lock(database: Path) -> Iterator[None]:
    """Held by another process, as a person's SQLite browser would."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    try:
        yield
    finally:
        holder.communicate("\n", timeout=10)


def capture(worker: WorkerProcess, turn_id: str, answers: list[tuple[int, str]]) -> None:
    with worker.client(60) as client:
        body = {"user_content": turn_id, "assistant_content": "ok", "session_key": "s", "turn_id": turn_id}
        answer = client.post("/capture", json=body)
        answers.append((answer.status_code, str(answer.json().get("code", ""))))


def in_threads(worker: WorkerProcess, turn_ids: list[str], answers: list[tuple[int, str]]) -> list[threading.Thread]:
    threads = [threading.Thread(target=capture, args=(worker, turn_id, answers)) for turn_id in turn_ids]
    for thread in threads:
        thread.start()
    return threads


def slowest_health(worker: WorkerProcess, seconds: float) -> float:
    slowest, until = 0.0, time.monotonic() + seconds
    with worker.client() as client:
        while time.monotonic() < until:
            begun = time.monotonic()
            assert client.get("/health").status_code == 200
            slowest = max(slowest, time.monotonic() - begun)
            time.sleep(0.1)
    return slowest


def test_captures_wait_for_a_short_outside_writer_and_everything_else_goes_on(worker: WorkerProcess) -> None:
    answers: list[tuple[int, str]] = []
    with write_lock(worker.home / "data" / "memory.db"):
        threads = in_threads(worker, ["a", "b", "c"], answers)
        assert slowest_health(worker, 2.5) < 0.5  # the budget is 0.2 s on an idle machine
        assert worker.post("/search/conversations", {"query": "Halcyon"})["total"] >= 1
        assert answers == []
    for thread in threads:
        thread.join(20)
    assert answers == [(200, "")] * 3
    assert worker.get("/v1/status").json()["counts"]["turns"] == 4


def test_a_long_outside_writer_makes_captures_fail_by_name_within_the_time_limit_and_together(
    worker: WorkerProcess,
) -> None:
    answers: list[tuple[int, str]] = []
    with write_lock(worker.home / "data" / "memory.db"):
        begun = time.monotonic()
        threads = in_threads(worker, [f"t{number}" for number in range(8)], answers)
        for thread in threads:
            thread.join(60)
        assert time.monotonic() - begun < 2 * BUSY_TIMEOUT_MS / 1000 + 3
        assert answers == [(503, "store_busy")] * 8
        document = worker.get("/v1/status").json()
        assert (document["state"], document["reasons"][0]["code"]) == ("broken", "store_busy")
    until = time.monotonic() + 20
    while worker.get("/health").json()["state"] != "ok":
        assert time.monotonic() < until, worker.get("/v1/status").json()["reasons"]
        time.sleep(0.2)
    answers.clear()
    capture(worker, "t0", answers)
    assert answers == [(200, "")]


def reason_codes(worker: WorkerProcess) -> dict[str, Any]:
    return {each["code"]: each["message"] for each in worker.get("/v1/status").json()["reasons"]}


def test_a_pinned_reader_makes_a_warning_with_the_size_and_the_log_shrinks_when_it_leaves(
    worker: WorkerProcess,
) -> None:
    database = worker.home / "data" / "memory.db"
    wal = database.with_name("memory.db-wal")
    reader = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("begin")
    reader.execute("select count(*) from turns").fetchall()
    writer = apsw.Connection(str(database))
    writer.set_busy_timeout(5_000)
    writer.execute("pragma wal_autocheckpoint = 0")
    writer.execute("create table if not exists ballast(x)")
    for _ in range(70):
        writer.execute("insert into ballast values(zeroblob(1048576))")
    writer.execute("drop table ballast")
    writer.close()
    assert wal.stat().st_size > 64 * 1024 * 1024
    worker.capture("Writing goes on.")
    time.sleep(1.1)
    assert re.search(r"grown to 7\d MiB", reason_codes(worker)["wal_large"])
    reader.execute("rollback")
    reader.close()
    until = time.monotonic() + 20
    while wal.stat().st_size > 16 * 1024 * 1024 or reason_codes(worker):
        assert time.monotonic() < until, (wal.stat().st_size, reason_codes(worker))
        time.sleep(0.2)


def test_many_clients_at_once_lose_no_turn(worker: WorkerProcess) -> None:
    """Trap B94."""
    answers: list[tuple[int, str]] = []

    def talk(client: int) -> None:
        for number in range(20):
            capture(worker, f"c{client}-{number}", answers)

    threads = [threading.Thread(target=talk, args=(client,)) for client in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [(200, "")] * 200
    assert worker.get("/v1/status").json()["counts"]["turns"] == 201
