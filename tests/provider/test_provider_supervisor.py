"""Finding, starting and refusing workers, with real processes."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb import launch, paths, protocol
from memory_tencentdb.errors import SpawnFailed, WorkerStranger, WorkerUnreachable
from memory_tencentdb.provider import TencentDBMemoryProvider
from memory_tencentdb.supervisor import Supervisor
from memory_tencentdb.wire import HostModel
from provider_stub import load_stub, stub_command


def supervisor_of(home: Path) -> Supervisor:
    return Supervisor(home, threading.Event())


def starts(home: Path) -> list[int]:
    record = home / "starts"
    return [int(pid) for pid in record.read_text().split()] if record.exists() else []


def requests(home: Path, route: str) -> list[dict[str, Any]]:
    lines = (home / "requests.jsonl").read_text().splitlines() if (home / "requests.jsonl").exists() else []
    return [body for asked, body in map(json.loads, lines) if asked == route]


def test_a_worker_is_started_once_for_all_who_come(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command("--delay", "0.3"))
    supervisors = [supervisor_of(home) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        hellos = list(pool.map(lambda each: each.connect(None), supervisors))
    assert len(starts(home)) == 1
    assert {hello.pid for hello in hellos} == set(starts(home))
    for each in supervisors:
        each.client.close()


def test_the_worker_runs_in_a_session_of_its_own_and_outlives_the_provider(
    home: Path, make_provider: Callable[..., TencentDBMemoryProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command())
    provider = make_provider()
    assert provider.prefetch("favourite tea") != ""
    provider.shutdown()
    (pid,) = starts(home)
    assert os.getsid(pid) == pid
    assert make_provider().prefetch("favourite tea") != ""
    assert starts(home) == [pid]


def test_a_worker_that_has_gone_is_replaced_within_the_same_recall(
    home: Path, make_provider: Callable[..., TencentDBMemoryProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command())
    provider = make_provider()
    assert provider.prefetch("favourite tea") != ""
    os.kill(starts(home)[0], signal.SIGKILL)
    os.waitpid(starts(home)[0], 0)
    assert provider.prefetch("favourite tea") != ""
    assert len(starts(home)) == 2


def test_the_hosts_model_is_offered_at_the_handshake(home: Path, stub: Any) -> None:
    supervisor = supervisor_of(home)
    supervisor.connect(HostModel("http://model", "sk-secret", "m", "custom"))
    supervisor.client.close()
    first, second = stub.bodies(protocol.HELLO)
    assert first["host_model"] is None  # nothing is told to a worker that is not known yet
    assert second["host_model"]["api_key"] == "sk-secret"
    assert "sk-secret" not in repr(HostModel("http://model", "sk-secret", "m"))


@pytest.mark.parametrize("odd", [{"data_dir": "/another"}, {"uid": 12345}])
def test_a_stranger_on_the_socket_is_never_used(home: Path, odd: dict[str, Any], make_provider: Any) -> None:
    """Trap B21."""
    stranger = load_stub().StubWorker(home, **odd).start()
    with pytest.raises(WorkerStranger):
        supervisor_of(home).connect(None)
    provider = make_provider()
    assert provider.prefetch("favourite tea") == ""
    assert stranger.bodies(protocol.RECALL) == []
    assert not starts(home)
    stranger.stop()


def test_a_server_that_is_not_ours_is_a_stranger(home: Path, stub: Any) -> None:
    stub.answers[protocol.HELLO] = lambda body: (200, {"status": "ok"})
    with pytest.raises(WorkerStranger):
        supervisor_of(home).connect(None)


def test_a_configuration_error_is_told_with_the_workers_words_and_not_retried(
    home: Path, make_provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command("--exit", "3"))
    with pytest.raises(SpawnFailed, match=r"llm\.apiKey") as failure:
        supervisor_of(home).connect(None)
    assert failure.value.exit_code == 3
    provider = make_provider()
    for number in range(3):
        provider.sync_turn(f"turn {number}", "noted")
        provider.prefetch("favourite tea")
    assert len(starts(home)) == 1
    (home / "config.json").write_text("{}")  # somebody has corrected it
    with pytest.raises(SpawnFailed):
        supervisor_of(home).connect(None)
    assert len(starts(home)) == 2


def test_a_worker_that_dies_at_once_is_given_a_rest_by_all(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command("--exit", "7"))
    for _ in range(7):
        with pytest.raises(SpawnFailed, match=r"exit code 7: the configuration is wrong: llm\.apiKey"):
            supervisor_of(home).connect(None)
    assert len(starts(home)) == 5
    with pytest.raises(SpawnFailed, match="crashed 5 times in a row and is given a rest"):
        supervisor_of(home).connect(None)


def test_an_older_worker_is_replaced_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap B10."""
    older = load_stub().StubWorker(home, protocol=protocol.PROTOCOL - 1)
    older.answers[protocol.STOP] = lambda body: (threading.Timer(0.05, older.stop).start(), (200, {}))[1]
    older.start()
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command())
    supervisor = supervisor_of(home)
    assert supervisor.connect(None).protocol == protocol.PROTOCOL
    supervisor.client.close()
    assert len(older.bodies(protocol.STOP)) == 1


def test_an_old_version_that_comes_back_is_not_stopped_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = stub_command("--protocol", str(protocol.PROTOCOL - 1))
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", command)
    for _ in range(3):
        supervisor = supervisor_of(home)
        with pytest.raises(WorkerUnreachable, match=r"install\.sh"):
            supervisor.connect(None)
        supervisor.client.close()
    assert len(requests(home, protocol.STOP)) <= 1
    assert len(starts(home)) <= 2


def test_a_newer_worker_is_left_alone(home: Path) -> None:
    """Trap B10, the other way round."""
    newer = load_stub().StubWorker(home, protocol=protocol.PROTOCOL + 1).start()
    with pytest.raises(WorkerUnreachable, match="update the plugin"):
        supervisor_of(home).connect(None)
    assert newer.bodies(protocol.STOP) == []
    newer.stop()


def test_an_older_version_of_the_same_protocol_is_replaced_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command("--version", "0.0.9"))
    first = supervisor_of(home)
    assert first.connect(None).version == "0.0.9"  # what was installed; nothing newer can be started
    first.client.close()
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command())
    for _ in range(3):
        upgraded = supervisor_of(home)
        assert upgraded.connect(None).version == protocol.VERSION
        upgraded.client.close()
    assert len(requests(home, protocol.STOP)) == 1
    assert len(starts(home)) == 2


def test_a_newer_version_of_the_same_protocol_is_used_and_left_alone(home: Path) -> None:
    newer = load_stub().StubWorker(home, version="99.0.0").start()
    supervisor = supervisor_of(home)
    assert supervisor.connect(None).version == "99.0.0"
    supervisor.client.close()
    assert newer.bodies(protocol.STOP) == []
    newer.stop()


def test_the_workers_own_word_on_its_data_directory_is_followed(home: Path, places: Path) -> None:
    elsewhere = places / "elsewhere"
    (home / "worker.json").write_text(json.dumps({"data_dir": str(elsewhere)}))
    assert supervisor_of(home).data_dir() == elsewhere
    (home / "worker.json").write_text("{torn")
    assert supervisor_of(home).data_dir() == home / "data"


@pytest.mark.parametrize(
    ("setting", "run", "line"),
    [
        (
            "/x/python -m memory_tencentdb_worker run",
            "/x/python -m memory_tencentdb_worker run",
            "/x/python -m memory_tencentdb_worker",
        ),
        (
            "/x/python -m memory_tencentdb_worker",
            "/x/python -m memory_tencentdb_worker run",
            "/x/python -m memory_tencentdb_worker",
        ),
        ("/x/memory-tencentdb", "/x/memory-tencentdb run", "/x/memory-tencentdb"),
        ("'/a b/worker' --flag", "/a b/worker --flag", "/a b/worker --flag"),
    ],
)
def test_the_users_command_is_taken_as_it_is(
    monkeypatch: pytest.MonkeyPatch, setting: str, run: str, line: str
) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", setting)
    assert " ".join(launch.run_command() or []) == run
    assert " ".join(launch.command_line() or []) == line


def test_output_logs_are_rotated_at_the_start_and_private(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command("--exit", "7"))
    log = paths.private_dir(home / "logs") / launch.OUTPUT_LOG
    log.write_bytes(b"x" * (launch.OUTPUT_LOG_BYTES + 1))
    with pytest.raises(SpawnFailed):
        supervisor_of(home).connect(None)
    assert log.stat().st_size < 1000
    assert (log.stat().st_mode & 0o777) == 0o600
    assert log.with_name(log.name + ".1").stat().st_size > launch.OUTPUT_LOG_BYTES
