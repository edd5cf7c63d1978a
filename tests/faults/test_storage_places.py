"""Where the store lies and who may read it: modes, network file systems."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_tencentdb_worker.modes import narrow
from memory_tencentdb_worker.store.migrations import open_database
from memory_tencentdb_worker.store.mounts import Mount
from memory_tencentdb_worker.store.sqlite import SqliteStore
from processes import FAST_PIPELINE, WorkerProcess
from service_parts import MARCH_5, build_service, say

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")


@pytest.fixture
def wide_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def wide_ones(home: Path) -> list[str]:
    """Everything below the home that others could read, the test's own files left out."""
    below = [path for path in home.rglob("*") if path.name not in ("config.json", "test-worker.err")]
    return [f"{path} {oct(path.lstat().st_mode)}" for path in below if stat.S_IMODE(path.lstat().st_mode) & 0o077]


def test_nothing_that_a_worker_leaves_behind_can_be_read_by_others(tmp_path: Path, wide_umask: None) -> None:
    """Trap B93."""
    home = tmp_path / "home"
    worker = WorkerProcess(home, {"memory": {"pipeline": FAST_PIPELINE}})
    worker.start()
    for user_id in ("", "ada"):
        worker.capture("My boat is called Halcyon. Always answer in French.", user_id=user_id)
    assert worker.flush()["idle"]
    while_running = wide_ones(home)
    assert worker.stop() == 0
    assert while_running == []
    assert wide_ones(home) == []
    names = {path.name for path in home.rglob("*")}
    assert {"memory.db", "conversations", "persona.md", "users", "worker.log", ".metadata"} <= names


def test_wide_modes_are_narrowed_at_the_start_and_nothing_else_is_touched(tmp_path: Path, wide_umask: None) -> None:
    home, data_dir = tmp_path / "home", tmp_path / "home" / "data"
    for folder in ("conversations", "users/abc/records", ".backup"):
        (data_dir / folder).mkdir(parents=True)
    ours = [
        data_dir / "conversations" / "2026-01-01.jsonl",
        data_dir / "users" / "abc" / "records" / "2026-01-01.jsonl",
        data_dir / "persona.md",
        data_dir / ".backup" / "memory-20260101_000000.db",
        home / "config.json",
    ]
    foreign = [home / "notes.txt", data_dir / "somebody.txt"]
    for path in (*ours, *foreign):
        path.write_text("{}")
    (data_dir / "scene_blocks").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    assert narrow(home, data_dir) == len(ours) + 5  # conversations, users, users/abc, users/abc/records, .backup
    assert {stat.S_IMODE(path.stat().st_mode) for path in ours} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in foreign} == {0o644}
    assert stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) == 0o755
    assert narrow(home, data_dir) == 0


def test_a_network_file_system_gets_no_shared_memory_and_one_warning_that_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Trap B88."""
    mounts = [Mount(Path("/"), "ext4", "/dev/sda1"), Mount(tmp_path, "nfs4", "server:/export")]
    database = open_database(tmp_path / "data", MARCH_5, mounts)
    store = SqliteStore(database)
    say(store, "My boat is called Halcyon.", "Noted.")
    assert store.counts().messages == 2
    assert not list((tmp_path / "data").glob("memory.db-*"))  # neither WAL nor shared memory
    assert store.facts().journal_mode == "delete"
    assert [record.message for record in caplog.records if "nfs4" in record.message and str(tmp_path) in record.message]
    document = build_service(store, tmp_path).service.status()
    (reason,) = document["reasons"]
    assert (document["state"], reason["code"]) == ("ok", "network_file_system")
    assert str(tmp_path) in reason["message"]
    store.close()


def test_a_store_that_moves_from_a_network_disk_to_a_local_one_goes_back_to_its_log(tmp_path: Path) -> None:
    local = [Mount(Path("/"), "ext4", "/dev/sda1")]
    remote = [Mount(Path("/"), "nfs", "server:/")]
    for mounts, mode in ((local, "wal"), (remote, "delete"), (local, "wal")):
        database = open_database(tmp_path / "data", MARCH_5, mounts)
        assert database.journal_mode == mode
        database.close()
