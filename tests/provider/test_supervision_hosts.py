"""Hosts that come all at once, hosts that end without a word, hosts that never say that they are done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_tencentdb import holder, protocol
from memory_tencentdb.outbox import Outbox
from memory_tencentdb.provider import TencentDBMemoryProvider
from memory_tencentdb.supervisor import Supervisor

HOST = Path(__file__).with_name("host_process.py")
pytestmark = pytest.mark.usefixtures("real_worker")


class BriefProvider(TencentDBMemoryProvider):
    idle_seconds = 0.5


def start_host(places: Path, end: str, *texts: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(HOST), str(places / "hermes"), end, *texts]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return condition()


def texts_in_store(home: Path) -> list[str]:
    """What a worker holds once the outbox is empty; the worker is started if need be."""
    supervisor = Supervisor(home, threading.Event())
    supervisor.connect(None)
    assert wait_for(lambda: supervisor.client.get(protocol.STATUS, 5)["outbox"]["turns"] == 0, 20)
    rows = supervisor.client.get(f"{protocol.INSPECT}?level=L0&limit=500", 5)["data"]
    supervisor.client.close()
    return sorted(row["content"] for row in rows if row["role"] == "user")


@pytest.mark.slow
def test_six_hosts_at_once_share_one_worker_and_leave_nothing_behind_when_killed(
    places: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traps B04, B16, B20: nobody loses the race, no log holds an error, and nothing is stale after kill -9."""
    monkeypatch.setenv("MEMORY_TENCENTDB_IDLE_SECONDS", "2")
    hosts = [start_host(places, "hold", f"fact number {number}") for number in range(6)]
    for host in hosts:
        assert host.stdout is not None
        assert host.stdout.readline() == "captured\n", host.communicate()[1]
    worker = holder.find_holder(home / "data")
    assert worker is not None
    started = [line for line in (home / "logs" / "worker.log").read_text().splitlines() if " serves " in line]
    assert len(started) == 1
    for host in hosts:
        host.send_signal(signal.SIGKILL)
    assert [host.communicate()[1] for host in hosts] == [""] * 6
    assert wait_for(lambda: holder.process_mark(worker.pid) == "", 15)
    logs = "".join(path.read_text() for path in (home / "logs").iterdir())
    assert not any(word in logs for word in ("ERROR", "WARNING", "Traceback"))
    assert holder.read_holder(home / "data") is not None
    assert not holder.is_held(home / "data")
    assert texts_in_store(home) == [f"fact number {number}" for number in range(6)]


@pytest.mark.parametrize("end", ["os._exit", "sys.exit", "exception", "kill", "return"])
def test_a_host_that_ends_right_after_its_turn_loses_nothing(places: Path, home: Path, end: str) -> None:
    """Trap B16: no `shutdown`, and the worker is not even there yet."""
    host = start_host(places, end, "my dog is called Bramble")
    _, errors = host.communicate(timeout=30)
    if end == "exception":
        assert errors.strip().endswith("RuntimeError: the host has a mistake of its own")
    else:
        assert errors == ""
    assert texts_in_store(home) == ["my dog is called Bramble"]


def test_a_dead_hosts_turns_are_taken_over_by_the_worker_itself(
    places: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but the command line ever asks this worker for anything."""
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", "/nowhere/python run")
    start_host(places, "kill", "one", "two").communicate(timeout=30)
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "worker")])}
    command = [sys.executable, "-m", "memory_tencentdb_worker"]

    def run(*words: str) -> dict[str, dict[str, int]]:
        finished = subprocess.run(
            [*command, *words, "--home", str(home), "--json"],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return dict(json.loads(finished.stdout))

    assert run("status")["outbox"]["turns"] == 2
    run("start")
    assert wait_for(lambda: run("status")["outbox"]["turns"] == 0, 15)
    assert run("status")["counts"]["turns"] == 2


@pytest.mark.slow
def test_fifty_providers_that_are_never_shut_down_leave_no_thread_and_no_descriptor(places: Path, home: Path) -> None:
    """As the host's API server does it: one instance a request."""
    supervisor = Supervisor(home, threading.Event())
    supervisor.connect(None)
    supervisor.client.close()
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    providers = []
    for number in range(50):
        provider = BriefProvider()
        provider.initialize(f"s{number}", platform="api_server", hermes_home=str(places / "hermes"))
        provider.sync_turn(f"fact number {number:02}", "Noted.")
        providers.append(provider)
    assert wait_for(lambda: threading.active_count() <= threads, 30)
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 2
    assert texts_in_store(home) == [f"fact number {number:02}" for number in range(50)]
    found = providers[7].prefetch("which fact has number 07?")
    providers[7].shutdown()
    assert found != ""  # one that is used again works again


def test_providers_without_a_worker_leave_no_thread_either_and_their_turns_wait(
    places: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", "/nowhere/python run")
    threads = threading.active_count()
    providers = [BriefProvider() for _ in range(30)]
    for number, provider in enumerate(providers):
        provider.initialize(f"s{number}", platform="api_server", hermes_home=str(places / "hermes"))
        provider.sync_turn(f"fact number {number:02}", "Noted.")
    assert wait_for(lambda: threading.active_count() <= threads, 15)
    assert Outbox(home / "outbox").pending() == 30
