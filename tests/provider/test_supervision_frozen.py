"""A worker that is there but does not answer: confirmed, ended and replaced, while turns go to the outbox."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memory_tencentdb import faults, paths, protocol
from memory_tencentdb.errors import WorkerSilent
from memory_tencentdb.holder import LOCK_FILE, find_holder
from memory_tencentdb.provider import TencentDBMemoryProvider
from memory_tencentdb.starts import Starts
from memory_tencentdb.supervisor import Patience, Supervisor
from provider_stub import load_stub, stub_command

QUICK = Patience(hello_seconds=0.4, second_hello_seconds=0.1, health_seconds=0.6, leave_seconds=1.0, term_seconds=0.3)
Make = Callable[..., TencentDBMemoryProvider]


def pid_of_worker(home: Path) -> int:
    holder = find_holder(home / "data")
    assert holder is not None
    return holder.pid


def ready(provider: TencentDBMemoryProvider) -> TencentDBMemoryProvider:
    assert provider._link is not None
    assert provider._link.wait_ready(20)
    return provider


@contextmanager
def within(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds


def wait_for_turns(provider: TencentDBMemoryProvider, count: int, seconds: float) -> int:
    """How many turns the worker holds in the end; asks as a patient caller would."""
    until = time.monotonic() + seconds
    turns = -1
    while time.monotonic() < until and turns != count:
        assert provider._link is not None
        provider._link.wake()
        if provider._link.wait_ready(0.2):
            turns = provider._ask(protocol.STATUS, {}, 2, method="GET")["counts"]["turns"]
        time.sleep(0.05)
    return turns


@pytest.mark.slow
def test_a_stopped_worker_is_replaced_while_recalls_and_turns_keep_their_budgets(
    home: Path, real_worker: None, make_provider: Make
) -> None:
    provider = ready(make_provider())
    provider.sync_turn("My dog is called Bramble.", "Noted.")
    frozen = pid_of_worker(home)
    os.kill(frozen, signal.SIGSTOP)
    noticed = time.monotonic()
    for number in range(3):
        with within(2.0):
            provider.prefetch(f"what is my dog called, question {number}?")
        with within(0.2):  # the first one finds out, on a busy machine
            provider.sync_turn(f"Fact number {number}.", "Noted.")
    assert wait_for_turns(provider, 4, 30) == 4
    assert time.monotonic() - noticed < 20  # under ten on a quiet machine; fifteen is promised
    assert pid_of_worker(home) != frozen
    with pytest.raises(ProcessLookupError):
        os.kill(frozen, 0)  # no zombie either (trap B03)
    assert "Bramble" in provider.prefetch("what is my dog called?")


def test_a_first_capture_notices_the_freeze_without_waiting_for_it(
    home: Path, make_provider: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap B111: a capture that hangs in the worker costs the turn's end a moment, and the turn is on disk."""
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command())
    provider = ready(make_provider())
    (home / "hang").write_text("60")
    with within(0.4):
        provider.sync_turn("one", "1")
    with within(0.1):
        provider.sync_turn("two", "2")
    assert provider._link is not None
    assert provider._link.outbox.pending() == 2


def test_a_deadlocked_worker_that_ignores_term_is_killed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command("--deaf-to-term"))
    supervisor = Supervisor(home, threading.Event(), QUICK)
    first = supervisor.connect(None).pid
    (home / "hang").write_text("60")
    healed = threading.Timer(1.3, (home / "hang").unlink)  # the next one must not hang too
    healed.start()
    second = supervisor.connect(None).pid
    healed.join()
    assert second != first
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    crash = Starts(home / "data").last_crash()
    assert crash is not None
    assert "neither handshakes nor /health" in crash.reason
    supervisor.client.close()


def test_a_worker_that_is_merely_busy_is_left_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command())
    supervisor = Supervisor(home, threading.Event(), QUICK)
    first = supervisor.connect(None).pid
    (home / "hang").write_text("0.5")  # longer than a handshake waits, shorter than the second look
    with pytest.raises(WorkerSilent, match="busy"):
        supervisor.connect(None)
    (home / "hang").unlink()
    assert supervisor.connect(None).pid == first
    assert Starts(home / "data").last_crash() is None
    supervisor.client.close()


def test_a_silent_process_that_does_not_hold_the_data_directory_is_never_signalled(
    home: Path, make_provider: Make
) -> None:
    """Trap B05: the lock's file names a process that runs, but it is not the one that wrote the name."""
    innocent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    paths.private_dir(home / "data")
    (home / "data" / LOCK_FILE).write_text(f"{innocent.pid} 00000000-1 serving\n")
    stranger = load_stub().StubWorker(home)
    stranger.answers = dict.fromkeys((protocol.HELLO, protocol.HEALTH), lambda body: time.sleep(30))
    stranger.start()
    try:
        with pytest.raises(WorkerSilent, match="not known as our worker"):
            Supervisor(home, threading.Event(), QUICK).connect(None)
        assert innocent.poll() is None
    finally:
        stranger.stop()
        innocent.kill()
        innocent.wait()


def test_a_worker_whose_socket_was_deleted_is_replaced(home: Path, real_worker: None) -> None:
    supervisor = Supervisor(home, threading.Event(), QUICK)
    first = supervisor.connect(None).pid
    supervisor.client.close()
    supervisor.socket().unlink()
    second = supervisor.connect(None).pid
    assert second != first
    assert pid_of_worker(home) == second
    supervisor.client.close()


def test_a_worker_that_is_still_starting_is_given_its_time(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large database may be on its way to a new version: six processes wait for it, none ends it."""
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command("--delay", "4"))
    supervisor = Supervisor(home, threading.Event())
    starter = threading.Thread(target=lambda: supervisor.connect(None))
    starter.start()
    other = Supervisor(home, threading.Event())
    assert other.connect(None).pid == pid_of_worker(home)
    starter.join()
    assert len((home / "starts").read_text().split()) == 1
    for each in (supervisor, other):
        each.client.close()


@pytest.mark.slow
def test_a_worker_whose_captures_hang_while_it_answers_handshakes_is_replaced_and_no_turn_is_lost(
    home: Path, places: Path, real_worker: None, make_provider: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TDAI_EMBEDDING_PROVIDER", "none")
    monkeypatch.setenv("MEMORY_TENCENTDB_STUCK_SECONDS", "3")
    monkeypatch.setenv(faults.VARIABLE, "turn.before_commit:delay:2:600000")
    monkeypatch.setenv(faults.MARK_VARIABLE, str(places / "fired"))
    provider = ready(make_provider())
    provider.sync_turn("one", "1")
    assert wait_for_turns(provider, 1, 20) == 1
    stuck = pid_of_worker(home)
    for number in range(3):
        provider.sync_turn(f"after {number}", "noted")
    assert wait_for_turns(provider, 4, 60) == 4
    assert pid_of_worker(home) != stuck
    crash = Starts(home / "data").last_crash()
    assert crash is not None
    assert "a write stood still" in crash.reason
    reasons = provider._ask(protocol.STATUS, {}, 2, method="GET")["reasons"]
    assert [reason["code"] for reason in reasons] == ["was_stuck"]
