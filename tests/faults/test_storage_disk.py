"""A worker whose disk is full, read-only or away: it says so, loses nothing, and goes on by itself (issue 3.6)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processes import FAST_PIPELINE, WorkerProcess
from small_disk import SmallDisk, small_disk

PATIENCE_SECONDS = 15.0
TURN = {"user_content": "My boat is called Halcyon.", "assistant_content": "Noted.", "session_key": "s1"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as mounted:
        yield mounted


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[[Path], WorkerProcess]]:
    started: list[WorkerProcess] = []

    def start(data_dir: Path, home: Path = tmp_path / "home") -> WorkerProcess:
        config = {"data": {"baseDir": str(data_dir)}, "memory": {"pipeline": FAST_PIPELINE}}
        started.append(WorkerProcess(home, config))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()


def send(worker: WorkerProcess, turn_id: str, text: str = "") -> tuple[int, str]:
    body = TURN | {"turn_id": turn_id, "user_content": text or TURN["user_content"]}
    with worker.client() as client:
        answer = client.post("/capture", json=body)
    return answer.status_code, str(answer.json().get("code", ""))


def status(worker: WorkerProcess) -> dict[str, Any]:
    document: dict[str, Any] = worker.get("/v1/status").json()
    return document


def wait_for_state(worker: WorkerProcess, state: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while (document := worker.get("/health").json())["state"] != state:
        assert time.monotonic() < until, status(worker)["reasons"]
        assert document["pid"] == worker.pid
        time.sleep(0.1)


def test_a_full_disk_refuses_turns_whole_and_everything_works_again_without_a_restart(
    disk: SmallDisk, worker: Callable[[Path], WorkerProcess]
) -> None:
    data_dir = disk.place / "data"
    running = worker(data_dir)
    assert send(running, "t0") == (200, "")
    running.flush()
    disk.fill()
    refused = [send(running, f"full-{number}", f"number {number} " + "x" * 40_000) for number in range(12)]
    assert (507, "disk_full") in refused
    assert set(refused) <= {(507, "disk_full"), (200, "")}  # room inside the log file may still take some

    document = status(running)
    assert document["state"] == "broken"
    reason = next(each for each in document["reasons"] if each["code"] == "disk_full")
    assert str(disk.place) in reason["message"]
    assert str(data_dir) in reason["message"]
    assert reason["since"]
    assert reason["action"]
    assert running.get("/health").json()["status"] == "degraded"
    found = running.post("/search/conversations", {"query": "Halcyon"})
    assert found["total"] >= 1  # reading goes on
    assert running.post("/recall", {"query": "my boat", "session_key": "s2"})["state"] == "broken"

    disk.free()
    wait_for_state(running, "ok")
    for number, (code, _) in enumerate(refused):
        if code == 507:
            assert send(running, f"full-{number}", f"number {number} " + "x" * 40_000) == (200, "")
    assert running.flush()["idle"]
    counts = status(running)["counts"]
    assert (counts["turns"], counts["messages"]) == (13, 26)
    lines = sum(path.read_text().count("\n") for path in (data_dir / "conversations").glob("*.jsonl"))
    assert lines == 26


def test_a_home_that_is_full_with_logs_and_all_does_not_end_the_worker(
    disk: SmallDisk, worker: Callable[..., WorkerProcess]
) -> None:
    running = worker(disk.place / "home" / "data", disk.place / "home")
    assert send(running, "t0") == (200, "")
    running.flush()
    disk.fill()
    for number in range(6):
        send(running, f"full-{number}", "x" * 40_000)
    assert status(running)["state"] == "broken"
    disk.free()
    wait_for_state(running, "ok")
    assert send(running, "after") == (200, "")
    disk.fill()
    assert running.stop() == 0
    disk.free()


def test_a_worker_is_not_started_for_good_measure_on_a_full_disk_and_status_says_why(disk: SmallDisk) -> None:
    home = disk.place / "home"
    home.mkdir()
    disk.fill()
    ended = run(home, "run")
    assert ended.returncode == 1, ended.stderr  # not 3: it may be tried again later
    shown = run(home, "status")
    assert shown.returncode == 4


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = WorkerProcess(home).env
    command = [sys.executable, "-m", "memory_tencentdb_worker", arguments[0], "--home", str(home), *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


def set_immutable(path: Path, *, on: bool) -> None:
    changed = subprocess.run(["chattr", "+i" if on else "-i", str(path)], capture_output=True, text=True, check=False)
    if changed.returncode:
        pytest.skip(f"no file can be made immutable here: {changed.stderr.strip()}")


def test_files_that_may_not_be_written_any_more_refuse_turns_until_they_may(
    tmp_path: Path, worker: Callable[[Path], WorkerProcess]
) -> None:
    data_dir = tmp_path / "data"
    running = worker(data_dir)
    assert send(running, "t0") == (200, "")
    running.flush()
    set_immutable(data_dir / "memory.db-wal", on=True)
    try:
        code, reason = send(running, "t1")
        assert (code, reason) in {(503, "store_io"), (503, "store_readonly")}
        assert status(running)["state"] == "broken"
        assert running.post("/search/conversations", {"query": "Halcyon"})["total"] >= 1
    finally:
        set_immutable(data_dir / "memory.db-wal", on=False)
    wait_for_state(running, "ok")
    assert send(running, "t1") == (200, "")


def test_a_data_directory_that_is_moved_away_takes_no_turn_with_it(
    tmp_path: Path, worker: Callable[[Path], WorkerProcess]
) -> None:
    data_dir = tmp_path / "data"
    running = worker(data_dir)
    assert send(running, "t0") == (200, "")
    running.flush()
    data_dir.rename(tmp_path / "elsewhere")
    assert send(running, "t1") == (503, "store_moved")
    assert status(running)["state"] == "broken"
    shutil.rmtree(data_dir, ignore_errors=True)  # what was made there meanwhile
    (tmp_path / "elsewhere").rename(data_dir)
    wait_for_state(running, "ok")
    assert send(running, "t1") == (200, "")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files to others")
def test_a_data_directory_of_another_user_is_refused_with_path_and_user(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    os.chown(home / "data", 12345, 12345)
    ended = run(home, "run")  # trap B25
    assert ended.returncode == 3
    assert str(home / "data") in ended.stderr
    assert "12345" in ended.stderr
    assert "12345" in run(home, "status").stdout


def test_a_read_only_data_directory_is_refused_with_its_path(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with small_disk(home / "data") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk.place)], check=True)
        ended = run(home, "run")
        assert ended.returncode == 3
        assert str(home / "data") in ended.stderr
        assert "cannot be written" in run(home, "status").stdout


def test_a_limit_on_file_sizes_refuses_a_turn_whole_and_lets_the_next_one_in(tmp_path: Path) -> None:
    """The kernel's other way to say that a file may not grow."""
    program = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from memory_tencentdb_worker.errors import StoreError\n"
        "from memory_tencentdb_worker.store.sqlite import open_store\n"
        "from service_parts import MARCH_5, say\n"
        "store = open_store(Path(sys.argv[1]), MARCH_5)\n"
        "say(store, 'kept', 'noted')\n"
        "size = (Path(sys.argv[1]) / 'memory.db-wal').stat().st_size\n"
        "hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 8192, hard))\n"
        "try:\n"
        "    say(store, 'x' * 500_000, 'noted')\n"
        "except StoreError as error:\n"
        "    print(error.code, store.counts().turns, store.counts().messages)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))\n"
        "say(store, 'room again', 'noted')\n"
        "store.read_through()\n"
        "print(store.counts().turns)\n"
    )
    environment = WorkerProcess(tmp_path / "home").env
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "data")],
        capture_output=True, text=True, env=environment, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["store_io", "1", "2", "2"]
