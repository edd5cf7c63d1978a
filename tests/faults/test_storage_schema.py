"""Schema changes: refused when the file is newer, whole or not at all when interrupted, with a backup first."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from memory_tencentdb_worker.errors import SchemaTooNew, StoreCorrupt, StoreError
from memory_tencentdb_worker.store.backups import backups
from memory_tencentdb_worker.store.migrations import MIGRATIONS, NEWEST, migrate, open_database
from memory_tencentdb_worker.store.sqlite import open_store
from service_parts import MARCH_5, say

ROOT = Path(__file__).resolve().parents[2]
STATEMENTS = (
    "create table boats(name text) strict",
    "insert into boats select text from messages",
    "alter table boats add column length integer",
    "create index boats_by_name on boats(name)",
)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    store = open_store(tmp_path / "data", MARCH_5)
    say(store, "My boat is called Halcyon.", "Noted.")
    store.close()
    return tmp_path / "data"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def change(path: Path, sql: str) -> None:
    raw = apsw.Connection(str(path))
    raw.execute(sql).fetchall()
    raw.close()


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_newer_database_is_refused_and_not_a_byte_of_it_changes(data_dir: Path, mode: str) -> None:
    database = data_dir / "memory.db"
    change(database, f"pragma journal_mode = {mode}; pragma user_version = {NEWEST + 1}")
    before = digest(database)
    with pytest.raises(SchemaTooNew, match="newer"):
        open_store(data_dir, MARCH_5)
    assert digest(database) == before


def test_a_foreign_database_is_refused_and_not_a_byte_of_it_changes(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    change(tmp_path / "data" / "memory.db", "create table somebody_elses(x)")
    before = digest(tmp_path / "data" / "memory.db")
    with pytest.raises(StoreCorrupt, match="not a memory store"):
        open_store(tmp_path / "data", MARCH_5)
    assert digest(tmp_path / "data" / "memory.db") == before


@pytest.mark.parametrize("good", range(len(STATEMENTS)))
def test_a_step_that_fails_at_any_statement_leaves_the_schema_before_it_and_can_be_run_again(
    data_dir: Path, good: int
) -> None:
    database = open_database(data_dir, MARCH_5)
    broken = "; ".join([*STATEMENTS[:good], "select nonsense from nowhere"])
    with pytest.raises(StoreError):
        migrate(database, (*MIGRATIONS, (NEWEST + 1, broken)), MARCH_5)
    assert tables(data_dir) & {"boats"} == set()
    assert version(data_dir) == NEWEST
    migrate(database, (*MIGRATIONS, (NEWEST + 1, "; ".join(STATEMENTS))), MARCH_5 + 1000)
    assert version(data_dir) == NEWEST + 1
    database.close()
    assert len(backups(data_dir)) == 2  # one before each try


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("done", range(len(STATEMENTS) + 1))
def test_a_process_killed_in_the_middle_of_a_step_leaves_the_schema_before_it(data_dir: Path, done: int) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    step = "; ".join([*STATEMENTS[:done], endless])
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from memory_tencentdb_worker.store.migrations import MIGRATIONS, NEWEST, migrate, open_database\n"
        "database = open_database(Path(sys.argv[1]), int(sys.argv[3]))\n"
        "print('begins', flush=True)\n"
        "migrate(database, (*MIGRATIONS, (NEWEST + 1, sys.argv[2])), int(sys.argv[3]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "worker")))}
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(data_dir), step, str(MARCH_5)],
        stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.4)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    assert backups(data_dir)
    store = open_store(data_dir, MARCH_5)
    assert store.counts().messages == 2
    store.close()
    assert tables(data_dir) & {"boats"} == set()
    assert version(data_dir) == NEWEST


def tables(data_dir: Path) -> set[str]:
    reader = apsw.Connection(str(data_dir / "memory.db"))
    names = {str(name) for (name,) in reader.execute("select name from sqlite_schema").fetchall()}
    reader.close()
    return names


def version(data_dir: Path) -> int:
    reader = apsw.Connection(str(data_dir / "memory.db"))
    number = int(reader.execute("pragma user_version").fetchall()[0][0])
    reader.close()
    return number
