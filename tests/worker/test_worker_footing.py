"""A worker whose socket, lock or database is gone: it takes nothing that it could lose, lets no second one in beside
it, writes nothing back, and leaves."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_tencentdb.holder import LOCK_FILE, find_holder
from memory_tencentdb_worker.errors import AlreadyRunning
from memory_tencentdb_worker.footing import Footing, Ground
from memory_tencentdb_worker.last_exit import LOST, read_exit
from memory_tencentdb_worker.lock import WorkerLock
from memory_tencentdb_worker.serving import EXIT_AGAIN
from memory_tencentdb_worker.store.sqlite import open_store
from processes import FAST_PIPELINE, WorkerProcess
from service_parts import MARCH_5, Clock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files in use cannot be removed there")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    process = WorkerProcess(tmp_path / "home", {"memory": {"pipeline": FAST_PIPELINE}})
    process.start()
    yield process
    process.stop()


def exit_code(worker: WorkerProcess) -> int:
    assert worker.process is not None
    return worker.process.wait(25)


def run_again(worker: WorkerProcess) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "memory_tencentdb_worker", "run", "--home", str(worker.home)]
    return subprocess.run(command, env=worker.env, capture_output=True, text=True, check=False, timeout=30)


def test_what_is_away_for_a_moment_only_is_not_lost(tmp_path: Path) -> None:
    path, clock = tmp_path / "socket", Clock(0)
    path.touch()
    footing = Footing([Ground("the socket", path, 2)], clock)
    path.rename(tmp_path / "elsewhere")
    assert footing.lost() == ""
    clock.now = 1
    (tmp_path / "elsewhere").rename(path)
    assert footing.lost() == ""
    path.unlink()
    assert footing.lost() == ""
    clock.now = 2
    assert footing.lost() == ""
    clock.now = 3
    assert "the socket" in footing.lost()


def test_a_file_in_the_place_of_another_is_not_the_same(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.touch()
    footing = Footing([Ground("the database", path, 0)])
    assert footing.lost() == ""
    path.rename(tmp_path / "kept")
    path.touch()
    assert "the database" in footing.lost()


def test_the_directory_keeps_a_second_worker_away_when_the_locks_file_is_gone(tmp_path: Path) -> None:
    first = WorkerLock(tmp_path)
    (tmp_path / LOCK_FILE).unlink()
    with pytest.raises(AlreadyRunning):
        WorkerLock(tmp_path)
    first.release()
    WorkerLock(tmp_path).release()


def test_a_worker_without_socket_and_lock_leaves_and_no_second_one_comes_before(worker: WorkerProcess) -> None:
    worker.capture("I live in Lisbon.")
    Path(worker.endpoint["socket"]).unlink()
    (worker.home / "data" / LOCK_FILE).unlink()
    second = run_again(worker)
    assert (second.returncode, "another worker holds" in second.stderr) == (0, True)
    assert exit_code(worker) == EXIT_AGAIN
    left = read_exit(worker.home / "logs")
    assert left is not None
    assert left.reason == LOST
    assert "was removed" in left.describe()
    worker.start()
    assert worker.get("/v1/status").json()["counts"]["turns"] == 1


def test_nothing_is_taken_into_a_data_directory_that_was_removed_and_nothing_comes_back(worker: WorkerProcess) -> None:
    worker.capture("My boat is called Halcyon.")
    assert worker.flush()["idle"]
    shutil.rmtree(worker.home / "data")
    with worker.client() as client:
        body = {"user_content": "My cat is Lostcat.", "assistant_content": "ok", "session_key": "s", "turn_id": "t"}
        answer = client.post("/capture", json=body)
        assert (answer.status_code, answer.json()["code"]) == (503, "store_moved")
        assert client.get("/health").json()["state"] == "broken"
    assert exit_code(worker) == EXIT_AGAIN
    remains = [path for path in (worker.home / "data").rglob("*") if path.is_file()]
    assert remains == []
    assert find_holder(worker.home / "data") is None
    worker.start()
    assert worker.get("/v1/status").json()["counts"]["turns"] == 0


def test_files_of_a_deleted_database_are_put_aside_by_a_new_one(tmp_path: Path) -> None:
    """They are neither a person's edits nor a reason to remember what was deleted."""
    data_dir = tmp_path / "data"
    (data_dir / "scene_blocks").mkdir(parents=True)
    (data_dir / "scene_blocks" / "Work.md").write_text("# Work\n\n- writes code\n")
    (data_dir / "persona.md").write_text("# Persona\n")
    store = open_store(data_dir, MARCH_5)
    assert store.scenes("") == []
    store.close()
    assert not (data_dir / "persona.md").exists()
    assert not (data_dir / "scene_blocks").exists()
    (aside,) = (data_dir / ".backup").iterdir()
    assert sorted(path.name for path in aside.iterdir()) == ["persona.md", "scene_blocks"]
    open_store(data_dir, MARCH_5).close()
    assert len(list((data_dir / ".backup").iterdir())) == 1
