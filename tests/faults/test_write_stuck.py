"""A worker that answers but keeps no turn any more, because a write stands still: it finds out, ends itself and is
replaced. One whose writes are merely slow stays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_tencentdb import faults
from memory_tencentdb.starts import EXIT_STUCK
from memory_tencentdb_worker.last_exit import STUCK, read_exit
from memory_tencentdb_worker.models import Writer
from memory_tencentdb_worker.service.write_path import WritePath, disk_answers, work_of_thread
from processes import FAST_PIPELINE, WorkerProcess

FOR_EVER_MS = 600_000
LIMIT = 6.0


class Bench:
    """A write whose thread, clock and disk are the test's."""

    def __init__(self, folder: Path) -> None:
        self.now, self.work = 0.0, "7/3"
        self.writer = Writer(1, 0.0)
        self.path = WritePath(
            lambda: [self.writer], folder, LIMIT, clock=lambda: self.now, work_of=lambda thread: self.work
        )

    def looks(self, count: int, seconds: float = 2.0) -> list[str]:
        found = []
        for _ in range(count):
            self.now += seconds
            found.append(self.path.stuck())
        return found


def test_a_write_that_neither_works_nor_waits_for_the_disk_is_stuck_after_the_limit(tmp_path: Path) -> None:
    assert [bool(found) for found in Bench(tmp_path).looks(4)] == [False, False, False, True]
    assert list(tmp_path.iterdir()) == []  # the look at the disk leaves nothing behind


def test_a_write_that_goes_on_working_is_never_stuck(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for ticks in range(20):
        bench.work = f"{ticks}/0"
        assert bench.looks(2) == ["", ""]


def test_a_write_that_waits_for_the_disk_is_never_stuck(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.work = ""
    assert set(bench.looks(20)) == {""}


def test_nothing_is_called_stuck_while_the_disk_does_not_take_a_write(tmp_path: Path) -> None:
    assert set(Bench(tmp_path / "away").looks(20)) == {""}


def test_each_write_begins_anew(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for since in range(10):
        bench.writer = Writer(1, float(since))
        assert bench.looks(3) == ["", "", ""]


def test_a_worker_that_was_stopped_for_an_hour_has_not_stood_still_for_an_hour(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.looks(1) + bench.looks(1, 3600.0) == ["", ""]


def test_a_thread_that_waits_shows_always_the_same_work_and_one_that_computes_does_not(tmp_path: Path) -> None:
    go_on = threading.Event()
    ids: dict[str, int] = {}

    def compute() -> None:
        ids["computes"] = threading.get_native_id()
        while not go_on.is_set():
            sum(range(1000))

    def wait() -> None:
        ids["waits"] = threading.get_native_id()
        go_on.wait()

    threads = [threading.Thread(target=compute), threading.Thread(target=wait)]
    for thread in threads:
        thread.start()
    seen: dict[str, set[str]] = {"computes": set(), "waits": set()}
    for _ in range(10):
        time.sleep(0.05)
        for name, native_id in ids.items():
            seen[name].add(work_of_thread(native_id))
    go_on.set()
    for thread in threads:
        thread.join()
    assert "" in seen["computes"] or len(seen["computes"]) > 1  # it runs, or its time grows
    assert len(seen["waits"] - {""}) == 1
    assert work_of_thread(ids["waits"]) == ""  # it has ended
    assert disk_answers(tmp_path)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[[str], WorkerProcess]]:
    started: list[WorkerProcess] = []

    def start(fault: str) -> WorkerProcess:
        env = {"MEMORY_TENCENTDB_STUCK_SECONDS": "3"}
        env |= {faults.VARIABLE: fault, faults.MARK_VARIABLE: str(tmp_path / "fired")} if fault else {}
        process = WorkerProcess(tmp_path / "home", {"memory": {"pipeline": FAST_PIPELINE}}, env)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.stop()


@pytest.mark.slow
def test_a_write_that_stands_still_ends_the_worker_and_the_next_one_says_why(
    tmp_path: Path, worker: Callable[[str], WorkerProcess]
) -> None:
    first = worker(f"turn.before_commit:delay:2:{FOR_EVER_MS}")
    first.capture("kept", turn_id="t1")
    sender = threading.Thread(target=_capture_in_vain, args=(first, "t2"))
    sender.start()
    assert first.process is not None
    assert first.process.wait(40) == EXIT_STUCK
    sender.join()
    left = read_exit(first.home / "logs")
    assert left is not None
    assert left.reason == STUCK
    assert "in add_turn" in (first.home / "test-worker.err").read_text()  # where it stood
    assert "stood still" in (first.home / "logs" / "worker.log").read_text()

    second = worker("")
    second.capture("said again", turn_id="t2")
    document = second.get("/v1/status").json()
    assert document["counts"]["turns"] == 2
    assert [reason["code"] for reason in document["reasons"]] == ["was_stuck"]
    assert document["state"] == "ok"


def _capture_in_vain(worker: WorkerProcess, turn_id: str) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - the worker ends in the middle of it
        worker.capture("not kept", turn_id=turn_id)
