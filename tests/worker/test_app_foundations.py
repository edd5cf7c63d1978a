"""What the worker stands on: lock, endpoint, log, and which home and data directory are meant."""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_tencentdb_worker.errors import AlreadyRunning, ConfigError
from memory_tencentdb_worker.lock import WorkerLock
from memory_tencentdb_worker.logs import WorkerLog
from memory_tencentdb_worker.places import find_places
from memory_tencentdb_worker.socket_file import WorkerSocket, announce, withdraw


def test_a_second_lock_on_the_same_directory_is_refused_until_release(tmp_path: Path) -> None:
    first = WorkerLock(tmp_path)
    with pytest.raises(AlreadyRunning):
        WorkerLock(tmp_path)
    first.release()
    first.release()
    WorkerLock(tmp_path).release()


def test_the_lock_ends_with_a_killed_process(tmp_path: Path) -> None:
    script = "import sys,time,pathlib; from memory_tencentdb_worker.lock import WorkerLock\n"
    script += "lock = WorkerLock(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    holder = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, env=environment)
    assert holder.stdout is not None
    with holder:
        assert holder.stdout.readline().strip() == b"held"
        with pytest.raises(AlreadyRunning):
            WorkerLock(tmp_path)
        holder.kill()
        holder.wait()
    WorkerLock(tmp_path).release()


def test_the_socket_is_private_and_goes_with_its_owner(tmp_path: Path) -> None:
    endpoint = WorkerSocket(tmp_path / "w.sock")
    assert stat.S_IMODE(endpoint.path.stat().st_mode) == 0o600
    endpoint.close()
    endpoint.close()
    assert not endpoint.path.exists()


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "w.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    WorkerSocket(path).close()


def test_a_living_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "w.sock"
    living = WorkerSocket(path)
    with pytest.raises(ConfigError, match="another process listens"):
        WorkerSocket(path)
    assert path.exists()
    living.close()


def test_a_file_in_the_sockets_place_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "w.sock"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="not a socket"):
        WorkerSocket(path)
    assert path.read_text() == "precious"


def test_a_socket_of_a_successor_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "w.sock"
    first = WorkerSocket(path)
    path.rename(tmp_path / "moved")
    second = WorkerSocket(path)
    first.close()
    assert path.exists()
    second.close()


def test_the_announcement_is_private_and_withdrawn_by_its_author_only(tmp_path: Path) -> None:
    path = announce(tmp_path, tmp_path / "data", tmp_path / "w.sock")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    facts = json.loads(path.read_text())
    assert facts["pid"] == os.getpid()
    assert set(facts) == {"data_dir", "socket", "pid", "version", "protocol"}
    path.write_text(json.dumps({**facts, "pid": 1}))
    withdraw(path)
    assert path.exists()
    path.write_text(json.dumps(facts))
    withdraw(path)
    assert not path.exists()
    withdraw(path)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[WorkerLog]:
    log = WorkerLog(tmp_path / "logs", "DEBUG")
    yield log
    log.close()


def test_an_event_is_one_line_without_secrets(log: WorkerLog) -> None:
    log.add_secrets(["hunter2-hunter2", "ab"])
    logger = logging.getLogger("memory_tencentdb_worker.test")
    try:
        raise ValueError("wrong key hunter2-hunter2\nforged line")
    except ValueError:
        logger.exception("failed with %s and Bearer abcdefghijk", "hunter2-hunter2")
    text = log.path.read_text()
    assert text.count("\n") == 1
    assert "hunter2" not in text
    assert "abcdefghijk" not in text
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700


def test_an_unknown_log_level_means_info(tmp_path: Path) -> None:
    log = WorkerLog(tmp_path / "logs", "LOUD")
    assert logging.getLogger().level == logging.INFO
    log.close()


def test_home_alone_keeps_the_variable_for_data_in_force(tmp_path: Path) -> None:
    home, data = tmp_path / "h", tmp_path / "d"
    places = find_places(str(home), None, {"TDAI_DATA_DIR": str(data)})
    assert (places.home, places.data_dir, places.announced) == (home, data, False)
    places = find_places(str(home), None, {})
    assert (places.data_dir, places.announced) == (home / "data", True)


def test_a_data_directory_alone_stands_on_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HERMES_HOME", "TDAI_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMORY_TENCENTDB_HOME", str(tmp_path / "usual"))
    env: dict[str, str] = {}
    assert find_places(None, str(tmp_path / "d"), env).home == tmp_path / "d"
    assert find_places(None, str(tmp_path / "h" / "data"), env).home == tmp_path / "h"
    assert find_places(None, str(tmp_path / "usual" / "data"), env).home == tmp_path / "usual"
    assert find_places(str(tmp_path / "h"), str(tmp_path / "d"), env).home == tmp_path / "h"
