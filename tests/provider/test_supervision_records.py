"""Who holds a data directory, and what is remembered of a worker's starts and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from memory_tencentdb import holder, paths
from memory_tencentdb.errors import SpawnFailed
from memory_tencentdb.holder import Holder
from memory_tencentdb.locks import LockFile
from memory_tencentdb.provider import TencentDBMemoryProvider
from memory_tencentdb.starts import Starts, rest_seconds
from memory_tencentdb.supervisor import Supervisor
from provider_stub import stub_command


@pytest.fixture
def data_dir(home: Path) -> Path:
    return paths.private_dir(home / "data")


def write(data_dir: Path, text: str) -> None:
    (data_dir / holder.LOCK_FILE).write_text(text)


def test_the_holder_is_who_has_the_lock_and_says_so(data_dir: Path) -> None:
    assert holder.find_holder(data_dir) is None
    write(data_dir, f"{os.getpid()} {holder.process_mark(os.getpid())} serving\n")
    assert holder.find_holder(data_dir) is None  # the name alone is nothing (trap B04)
    with LockFile(data_dir / holder.LOCK_FILE) as lock:
        assert lock.acquire()
        found = holder.find_holder(data_dir)
    assert found is not None
    assert (found.pid, found.state, found.is_starting) == (os.getpid(), holder.SERVING, False)


@pytest.mark.parametrize("text", ["", "{torn", "12", "x y z\n", f"{os.getpid()}\n"])
def test_a_lock_without_a_name_has_no_known_holder(data_dir: Path, text: str) -> None:
    write(data_dir, text)
    with LockFile(data_dir / holder.LOCK_FILE) as lock:
        assert lock.acquire()
        assert holder.find_holder(data_dir) is None


def test_a_process_that_got_the_number_of_a_dead_one_is_not_taken_for_it(data_dir: Path) -> None:
    """Traps B05 and B06: identity is the number and the start in ticks since the boot, which no clock changes."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        mine, its = holder.process_mark(os.getpid()), holder.process_mark(other.pid)
        assert mine != its
        pretended = Holder(other.pid, mine, holder.SERVING, time.time())
        assert not pretended.exists()
        assert holder.end_holder(data_dir, pretended, 0.1, 0.1, lambda: None)
        assert other.poll() is None
        other.kill()
        while Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)
        assert not Holder(other.pid, its, holder.SERVING, time.time()).exists()
    finally:
        other.kill()
        other.wait()


def test_rests_double_up_to_ten_minutes() -> None:
    assert [rest_seconds(count) for count in (0, 4, 5, 6, 7, 11, 1000)] == [0, 0, 10, 20, 40, 600, 600]


def test_crashes_in_a_row_earn_a_rest_and_a_stable_worker_forgets_them(home: Path, data_dir: Path) -> None:
    starts = Starts(data_dir)
    for now in range(5):
        starts.check(float(now), 0)
        starts.note_start(float(now))
        starts.note_crash(now + 0.5, 1, "the worker ended with exit code 1", ["first", "last words"])
    with pytest.raises(SpawnFailed, match=r"crashed 5 times .* rest of 9 s more; .*exit code 1: last words"):
        starts.check(5.5, 0)
    starts.check(15, 0)
    starts.note_start(15)
    starts.settle(50)
    assert starts.last_crash() is not None
    starts.settle(75)
    assert starts.last_crash() is None


def test_a_crash_long_after_a_start_is_the_first_of_its_row(data_dir: Path) -> None:
    starts = Starts(data_dir)
    for now in (1000.0, 2000.0, 3000.0):
        starts.note_start(now)
        assert starts.note_crash(now + 500, -9, "the worker was ended by SIGKILL").streak == 1


def test_refused_settings_are_not_tried_again_until_they_change(data_dir: Path) -> None:
    starts = Starts(data_dir)
    starts.note_crash(100, 3, "the worker ended with exit code 3", ["llm.apiKey is wrong"])
    with pytest.raises(SpawnFailed, match=r"llm\.apiKey") as refused:
        starts.check(110, 50)
    assert refused.value.exit_code == 3
    starts.check(110, 105)
    starts.check(161, 50)


@pytest.mark.parametrize("text", ["{torn", "[]", '{"crash": 5, "started_at": "x"}', '{"crash": {"lines": []}}'])
def test_a_record_that_cannot_be_read_counts_as_empty(data_dir: Path, text: str) -> None:
    (paths.runtime_dir() / f"{paths.data_dir_key(data_dir)}.starts.json").write_text(text)
    starts = Starts(data_dir)
    starts.check(1, 0)
    starts.settle(1)
    assert starts.last_crash() is None
    assert starts.note_crash(2, None, "it ended").streak == 1


def test_how_a_killed_worker_ended_is_kept_and_shown(
    home: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command())
    supervisor = Supervisor(home, threading.Event())
    (paths.private_dir(home / "logs") / "worker.log").write_text("starting\nreading a very large message\n")
    os.kill(supervisor.connect(None).pid, signal.SIGKILL)
    supervisor.client.close()
    assert supervisor.connect(None)
    supervisor.client.close()
    crash = Starts(data_dir).last_crash()
    assert crash is not None
    assert (crash.streak, crash.exit_code, crash.reason) == (1, -9, "the worker was ended by SIGKILL")
    assert crash.lines == ("starting", "reading a very large message")


def test_a_worker_that_leaves_as_it_should_is_no_crash_and_is_started_again_at_once(
    home: Path, data_dir: Path, real_worker: None, make_provider: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap B07: the idle limit costs the caller nothing, and never the budget of starts."""
    monkeypatch.setenv("MEMORY_TENCENTDB_IDLE_SECONDS", "1")
    provider: TencentDBMemoryProvider = make_provider()
    assert provider._link is not None
    assert provider._link.wait_ready(20)
    provider.sync_turn("fact number 1", "noted")
    former = holder.find_holder(data_dir)
    until = time.monotonic() + 10
    while former is not None and former.exists() and time.monotonic() < until:
        time.sleep(0.05)
    found = ""
    while not found and time.monotonic() < until + 10:  # a start may outlast one recall
        found = provider.prefetch("which fact has which number?")
    assert found != ""
    assert Starts(data_dir).last_crash() is None


def test_sessions_that_come_and_go_keep_their_worker(
    home: Path, make_provider: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap B08: nothing about a new session, its environment included, restarts a worker."""
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command())
    for number in range(5):
        monkeypatch.setenv("SESSION_OF_THE_TERMINAL", str(number))
        provider = make_provider(f"s{number}")
        assert provider._link.wait_ready(10)
        provider.shutdown()
    assert len((home / "starts").read_text().split()) == 1


def test_two_homes_have_two_workers(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traps B09 and B19: keyed by the home, also where its path is longer than a socket's may be."""
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command())
    deep = places / ("x" * 60) / ("y" * 60)
    pids = set()
    for _ in range(2):
        for name in ("a", "b"):
            supervisor = Supervisor(deep / name / "memory_tencentdb", threading.Event())
            pids.add(supervisor.connect(None).pid)
            assert len(os.fsencode(supervisor.socket())) < 100
            supervisor.client.close()
    assert len(pids) == 2


def test_the_command_line_shows_the_crash_while_the_worker_is_away(home: Path, data_dir: Path) -> None:
    """Trap B12: the reason is where a person looks, and the exit code says that something is wrong."""
    Starts(data_dir).note_crash(time.time(), -11, "the worker was ended by SIGSEGV", ["Fatal Python error"])
    root = Path(__file__).resolve().parents[2]
    finished = subprocess.run(
        [sys.executable, "-m", "memory_tencentdb_worker", "status", "--home", str(home), "--json"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "worker")])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 4
    messages = [reason["message"] for reason in json.loads(finished.stdout)["reasons"]]
    assert "the worker was ended by SIGSEGV\nFatal Python error" in messages
