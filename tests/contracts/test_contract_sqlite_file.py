"""The database file of the sqlite backend: private, durable, migrated with a backup, never overwritten when damaged."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from contracts.turns import NOW, add, batch, idle_plan, lease, remember, turn
from memory_tencentdb_worker.errors import SchemaTooNew, StoreCorrupt, StoreError, StoreFull
from memory_tencentdb_worker.models import AtomChanges, EmbeddingSpace, Filter, JobKind
from memory_tencentdb_worker.store.backups import back_up
from memory_tencentdb_worker.store.migrations import MIGRATIONS, NEWEST, migrate, open_database
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store

ROOT = Path(__file__).resolve().parents[2]

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and signals of POSIX")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@posix
def test_contract_sqlite_files_are_for_the_owner_only(data_dir: Path) -> None:
    before = os.umask(0o022)
    try:
        store = open_store(data_dir, NOW)
        add(store)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in data_dir.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    assert set(modes) == {"memory.db", "memory.db-wal", "memory.db-shm"}
    assert set(modes.values()) == {0o600}


@posix
def test_contract_sqlite_wide_modes_are_narrowed(data_dir: Path) -> None:
    open_store(data_dir, NOW).close()
    (data_dir / "memory.db").chmod(0o644)
    data_dir.chmod(0o755)
    open_store(data_dir, NOW).close()
    assert stat.S_IMODE((data_dir / "memory.db").stat().st_mode) == 0o600
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700


def test_contract_sqlite_closed_store_leaves_no_wal_and_says_so(data_dir: Path) -> None:
    store = open_store(data_dir, NOW)
    add(store)
    store.close()
    assert [path.name for path in data_dir.iterdir()] == ["memory.db"]
    with pytest.raises(StoreError):
        add(store)
    with pytest.raises(StoreError):
        store.counts()


@posix
def test_contract_sqlite_killed_writer_loses_no_turn_that_was_answered(data_dir: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from contracts.turns import NOW, each_turn, turn\n"
        "from memory_tencentdb_worker.store.sqlite import open_store\n"
        "store = open_store(Path(sys.argv[1]), NOW)\n"
        "for number in range(100_000):\n"
        "    store.add_turn(turn(f'number {number}', 'noted', turn_id=f't{number}'), each_turn(), NOW)\n"
        "    print(number, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "worker", ROOT / "tests")))}
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(data_dir)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert writer.stdout is not None
    for line in writer.stdout:
        if int(line) >= 50:
            break
    writer.send_signal(signal.SIGKILL)
    answered = [int(line) for line in writer.stdout.read().split("\n") if line.strip().isdigit()]
    writer.stdout.close()
    writer.wait()
    last = max([50, *answered[:-1]])  # the very last line may be cut

    store = open_store(data_dir, NOW)
    counts = store.counts()
    assert counts.turns > last
    assert counts.messages == 2 * counts.turns
    assert store.search_messages(f"number {last}", Filter(""), 3)[0].message.text == f"number {last}"
    assert store.lease_job([JobKind.L1], NOW, 1_000, "w") is not None
    store.close()


def test_contract_sqlite_newer_schema_is_refused(data_dir: Path) -> None:
    open_store(data_dir, NOW).close()
    raw = apsw.Connection(str(data_dir / "memory.db"))
    raw.execute(f"pragma user_version = {NEWEST + 1}")
    raw.close()
    with pytest.raises(SchemaTooNew):
        open_store(data_dir, NOW)


def test_contract_sqlite_migration_makes_a_backup_first(data_dir: Path) -> None:
    store = open_store(data_dir, NOW)
    add(store)
    store.close()
    database = open_database(data_dir, NOW)
    migrate(database, (*MIGRATIONS, (NEWEST + 1, "create table later(x)")), NOW)
    database.close()
    (backup,) = (data_dir / ".backup").iterdir()
    assert backup.name.startswith(f"memory-v{NEWEST}-")
    if sys.platform != "win32":
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    copy = apsw.Connection(str(backup))
    assert copy.execute("select count(*) from messages").fetchone() == (2,)
    copy.close()


def test_contract_sqlite_failed_migration_leaves_the_former_schema(data_dir: Path) -> None:
    database = open_database(data_dir, NOW)
    with pytest.raises(StoreError):
        migrate(database, (*MIGRATIONS, (NEWEST + 1, "create table later(x); select nonsense")), NOW)
    database.close()
    open_store(data_dir, NOW).close()


def test_contract_sqlite_backup_is_consistent_while_running(data_dir: Path) -> None:
    database = open_database(data_dir, NOW)
    store = SqliteStore(database)
    add(store)
    assert back_up(database, NOW).stat().st_size > 0
    add(store)
    store.close()


@pytest.mark.parametrize("content", [b"\0" * 4096, b"not a database at all, but long enough to be read as one" * 9])
def test_contract_sqlite_damaged_file_is_reported_and_left_as_it_is(data_dir: Path, content: bytes) -> None:
    data_dir.mkdir()
    (data_dir / "memory.db").write_bytes(content)
    with pytest.raises(StoreCorrupt):
        open_store(data_dir, NOW)
    assert (data_dir / "memory.db").read_bytes() == content


def test_contract_sqlite_zeroed_header_is_reported(data_dir: Path) -> None:
    store = open_store(data_dir, NOW)
    add(store)
    store.close()
    path = data_dir / "memory.db"
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])
    with pytest.raises(StoreCorrupt):
        open_store(data_dir, NOW)


def test_contract_sqlite_foreign_database_is_left_alone(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    raw = apsw.Connection(str(data_dir / "memory.db"))
    raw.execute("create table somebody_elses(x)")
    raw.close()
    with pytest.raises(StoreCorrupt):
        open_store(data_dir, NOW)


def test_contract_sqlite_empty_file_beside_conversations_is_a_loss_not_a_new_user(data_dir: Path) -> None:
    (data_dir / "conversations").mkdir(parents=True)
    (data_dir / "memory.db").touch()
    open_store(data_dir, NOW).close()

    (data_dir / "memory.db").write_bytes(b"")
    (data_dir / "conversations" / "2026-01-01.jsonl").write_text("{}\n")
    with pytest.raises(StoreCorrupt, match="lost"):
        open_store(data_dir, NOW)
    assert (data_dir / "memory.db").stat().st_size == 0


def test_contract_sqlite_full_disk_writes_nothing_and_says_so(data_dir: Path) -> None:
    database = open_database(data_dir, NOW)
    store = SqliteStore(database)
    add(store, "kept", "")
    with database.write() as connection:
        pages = connection.execute("pragma page_count").fetchall()[0][0]
        connection.execute(f"pragma max_page_count = {pages}").fetchall()
    with pytest.raises(StoreFull):
        add(store, "x" * 1_000_000, "")
    counts = store.counts()
    assert counts.turns == counts.messages
    with database.write() as connection:
        connection.execute("pragma max_page_count = 1073741823").fetchall()
    add(store, "room again", "")
    store.close()


def test_contract_sqlite_outside_writer_is_waited_for(data_dir: Path) -> None:
    store = open_store(data_dir, NOW)
    outside = apsw.Connection(str(data_dir / "memory.db"))
    outside.execute("begin immediate")
    writer = threading.Thread(target=add, args=(store, "patient", ""))
    writer.start()
    writer.join(0.2)
    assert writer.is_alive()
    assert store.counts().turns == 0
    outside.execute("rollback")
    writer.join(5)
    assert store.counts().turns == 1
    outside.close()
    store.close()


def test_contract_sqlite_two_openers_of_a_new_directory_share_one_schema(data_dir: Path) -> None:
    stores: list[SqliteStore] = []
    openers = [threading.Thread(target=lambda: stores.append(open_store(data_dir, NOW))) for _ in range(6)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join()
    assert len(stores) == 6
    assert len({store.data_dir_id for store in stores}) == 1
    for store in stores:
        store.close()


def test_contract_sqlite_keeps_turns_without_numpy(data_dir: Path) -> None:
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "from pathlib import Path\n"
        "from contracts.turns import NOW, add\n"
        "from memory_tencentdb_worker.errors import StoreError\n"
        "from memory_tencentdb_worker.models import EmbeddingSpace, Filter\n"
        "from memory_tencentdb_worker.store.sqlite import open_store\n"
        "store = open_store(Path(sys.argv[1]), NOW)\n"
        "add(store, 'pizza', '')\n"
        "for ask in (lambda: store.use_space(EmbeddingSpace('p', 'm', 3)),"
        " lambda: store.search_messages('pizza', Filter(''), 1)):\n"
        "    try:\n"
        "        ask()\n"
        "    except StoreError as error:\n"
        "        print(error.code)\n"
        "print(bool(store.vectors_problem))\n"
        "store.close()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "worker", ROOT / "tests")))}
    done = subprocess.run(
        [sys.executable, "-c", program, str(data_dir)], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.split() == ["vectors_unavailable", "search_unavailable", "True"]

    store = open_store(data_dir, NOW)  # it loads again: nothing was lost
    store.use_space(EmbeddingSpace("p", "m", 3))
    assert [text.text for text in store.texts_to_embed(5)] == ["pizza"]
    assert [hit.message.text for hit in store.search_messages("pizza", Filter(""), 1)] == ["pizza"]
    store.close()


def test_contract_sqlite_everything_survives_a_restart(data_dir: Path) -> None:
    store = open_store(data_dir, NOW)
    fact = remember(store, "The user lives in Lisbon.")
    store.add_turn(turn("later", ""), lambda state: [], NOW)
    store.make_due(NOW, expedite=True)
    held = lease(store, JobKind.L1)
    store.apply_atoms(held, batch(store, max_messages=1), AtomChanges(), idle_plan, NOW)
    due_before = store.next_due_at(list(JobKind))
    unread = store.unextracted("", 9)
    store.close()

    again = open_store(data_dir, NOW)
    assert again.atom("", fact.id) == fact
    assert again.next_due_at(list(JobKind)) == due_before
    assert again.unextracted("", 9) == unread
    assert again.jobs_done() == 1
    assert lease(again, JobKind.L1).expedite
    again.close()
