"""Start, stop, restart, and every way a worker may end or refuse to begin."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from command_line import CommandLine
from memory_tencentdb.paths import socket_path


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


def test_start_status_restart_stop(empty: CommandLine) -> None:
    ran = empty.at_home("start", "--json")
    assert ran.code == 0, ran.err
    pid = ran.document["pid"]
    assert empty.at_home("start", "--json").document == {"pid": pid, "started": False}
    assert empty.at_home("status").code == 0
    assert psutil.Process(pid).memory_info().rss < 80 * 2**20
    again = empty.at_home("restart", "--json").document["pid"]
    assert again != pid
    assert not alive(pid)
    socket_file = Path(empty.at_home("status", "--json").document["worker"]["socket"])
    assert stat.S_IMODE(socket_file.stat().st_mode) == 0o600
    assert empty.at_home("stop").code == 0
    assert not alive(again)
    assert not socket_file.exists()
    assert not (empty.home / "worker.json").exists()
    assert empty.at_home("status").code == 4


def test_everything_in_the_home_is_private(empty: CommandLine) -> None:
    empty.at_home("start")
    empty.at_home("capture", "--session", "s", "--user", "I like tea", "--assistant", "ok")
    empty.at_home("flush", "--wait", "20")
    for path in [empty.home, *empty.home.rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_a_terminated_worker_ends_with_0_and_keeps_everything(empty: CommandLine) -> None:
    pid = empty.at_home("start", "--json").document["pid"]
    empty.at_home("capture", "--session", "s", "--user", "I like tea", "--assistant", "ok")
    os.kill(pid, signal.SIGTERM)
    assert wait_until_gone(pid, 8)
    assert not (empty.home / "data" / "memory.db-wal").exists() or (
        (empty.home / "data" / "memory.db-wal").stat().st_size == 0
    )
    assert "ends" in empty.at_home("logs", "-n", "1").out
    empty.at_home("start")
    assert "I like tea" in empty.at_home("search", "conversations", "tea").out


def test_a_killed_worker_leaves_nothing_in_the_way(empty: CommandLine) -> None:
    pid = empty.at_home("start", "--json").document["pid"]
    os.kill(pid, signal.SIGKILL)
    assert wait_until_gone(pid, 5)
    assert empty.at_home("status").code == 4
    assert empty.at_home("start").code == 0


def test_stop_ends_a_frozen_worker(empty: CommandLine) -> None:
    pid = empty.at_home("start", "--json").document["pid"]
    os.kill(pid, signal.SIGSTOP)
    ran = empty.at_home("stop", "--json", timeout=40)
    assert ran.document == {"pid": pid, "stopped": True}
    assert not alive(pid)


def test_an_unneeded_worker_leaves_by_itself(empty: CommandLine) -> None:
    pid = empty.at_home("start", "--json", MEMORY_TENCENTDB_IDLE_SECONDS="1").document["pid"]
    assert wait_until_gone(pid, 10)
    assert "without a client" in empty.at_home("logs").out


def test_tdai_data_dir_stays_in_force_when_only_the_home_is_given(empty: CommandLine, tmp_path: Path) -> None:
    data_dir = str(tmp_path / "elsewhere")
    assert empty.at_home("start", TDAI_DATA_DIR=data_dir).code == 0
    try:
        assert empty.at_home("status", "--json", TDAI_DATA_DIR=data_dir).document["data_dir"] == data_dir
        assert not (empty.home / "worker.json").exists(), "the home's own data directory is another one"
        assert empty.at_home("status").code == 4
    finally:
        empty.at_home("stop", TDAI_DATA_DIR=data_dir)


@pytest.mark.parametrize(
    ("text", "said"),
    [("server: {host: 0.0.0.0}", "server.apiKey"), ("server: {apiKey: 5}", "server.apiKey"),
     ("server: {host: 0.0.0.0, port: 8420, apiKey: ' '}", "server.apiKey")],
)  # fmt: skip
def test_an_unsafe_configuration_forbids_the_start(empty: CommandLine, text: str, said: str) -> None:
    empty.home.mkdir()
    (empty.home / "config.yaml").write_text(text)
    ran = empty.at_home("start")
    assert ran.code == 3
    assert said in ran.err
    assert not (empty.home / "data" / "memory.db").exists()


def test_a_broken_file_means_a_degraded_worker_that_says_why(empty: CommandLine) -> None:
    empty.home.mkdir()
    (empty.home / "config.yaml").write_text("llm:\n\tmodel: x\n")
    assert empty.at_home("start").code == 0
    ran = empty.at_home("status", "--json")
    assert ran.code == 6
    assert ran.document["state"] == "degraded"
    assert any("config.yaml:2" in str(reason) for reason in [*ran.document["reasons"], ran.document["config"]])


def test_bad_values_are_listed_by_the_running_worker(empty: CommandLine) -> None:
    empty.home.mkdir()
    (empty.home / "config.yaml").write_text("memory: {recall: {maxResults: many}, recal: {}}\n")
    empty.at_home("start")
    errors = empty.at_home("status", "--json").document["config"]["errors"]
    assert [error["key"] for error in errors] == ["memory.recall.maxResults", "memory.recal"]
    assert set(errors[0]) == {"key", "value", "problem", "used"}


def test_a_newer_database_is_left_alone_with_exit_3(empty: CommandLine) -> None:
    import apsw

    (empty.home / "data").mkdir(parents=True)
    database = empty.home / "data" / "memory.db"
    connection = apsw.Connection(str(database))
    connection.execute("pragma journal_mode = wal; pragma user_version = 9999; create table later (x)").fetchall()
    connection.close()
    before = database.read_bytes()
    assert empty.at_home("start").code == 3
    assert database.read_bytes() == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_data_directory_of_another_user_is_refused_by_name(empty: CommandLine) -> None:
    (empty.home / "data").mkdir(parents=True)
    os.chown(empty.home / "data", 12345, 12345)
    ran = empty.at_home("start")
    assert ran.code == 3
    assert str(empty.home / "data") in ran.err
    assert "12345" in ran.err


def test_an_end_that_hangs_is_cut_short(tmp_path: Path) -> None:
    script = "import time; from memory_tencentdb_worker import process\n"
    script += "process.STOP_LIMIT_SECONDS = 0.5; switch = process.StopSwitch(); switch.take_signals()\n"
    script += "print('ready', flush=True)\nwhile True: time.sleep(60)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    hanging = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environment)  # fmt: skip
    assert hanging.stdout is not None
    assert hanging.stdout.readline() == b"ready\n"
    hanging.send_signal(signal.SIGTERM)
    _, said = hanging.communicate(timeout=10)
    assert hanging.returncode == 1
    assert b"Timeout" in said


def test_a_file_in_the_sockets_place_is_left_alone(empty: CommandLine) -> None:
    path = socket_path(empty.home / "data")
    path.write_text("precious")
    try:
        ran = empty.at_home("start")
        assert ran.code == 3
        assert str(path) in ran.err
        assert path.read_text() == "precious"
    finally:
        path.unlink()


def test_two_starts_at_once_make_one_worker(empty: CommandLine) -> None:
    command = [sys.executable, "-m", "memory_tencentdb_worker", "start", "--home", str(empty.home), "--json"]
    both = [subprocess.Popen(command, env=empty.environment(), stdout=subprocess.PIPE) for _ in range(2)]
    pids = {process.communicate(timeout=40)[0] for process in both}
    assert all(process.returncode == 0 for process in both)
    pid = empty.at_home("status", "--json").document["worker"]["pid"]
    assert all(str(pid).encode() in said for said in pids)


def test_a_deep_home_still_gets_a_short_socket(empty: CommandLine, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    assert empty("start", "--home", str(deep)).code == 0
    try:
        document = empty("status", "--home", str(deep), "--json").document
        assert len(os.fsencode(document["worker"]["socket"])) < 100
    finally:
        empty("stop", "--home", str(deep))


def test_stop_is_quick_while_a_client_waits_for_a_flush(empty: CommandLine) -> None:
    pid = empty.at_home("start", "--json").document["pid"]
    address = empty.at_home("status", "--json").document["worker"]["socket"]
    with socket.socket(socket.AF_UNIX) as held:
        held.connect(address)
        started = time.monotonic()
        assert empty.at_home("stop").code == 0
    assert time.monotonic() - started < 6
    assert not alive(pid)
