"""Brings a database file to the newest schema, one transaction a step, with a backup before the first."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

import apsw

from memory_tencentdb import faults
from memory_tencentdb.paths import private_dir
from memory_tencentdb_worker.errors import SchemaTooNew, StoreCorrupt, StoreError, StoreFull
from memory_tencentdb_worker.store.backups import back_up, problem_of, settle_new, settle_restored
from memory_tencentdb_worker.store.connection import BUSY_TIMEOUT_MS, Connection, Database, first_value, narrow_files
from memory_tencentdb_worker.store.message_keys import offer_functions
from memory_tencentdb_worker.store.mounts import Mount, known_mounts, mount_of
from memory_tencentdb_worker.store.schema import APPLICATION_ID, MIGRATIONS
from memory_tencentdb_worker.store.sqlite_errors import translated_errors

_log = logging.getLogger(__name__)

NEWEST = MIGRATIONS[-1][0]

CHECKED_SIZE_BYTES = 8 * 1024 * 1024
"""Files up to this size are read through at every start (some 50 ms); larger ones in the first quiet minute."""

WAL_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


def open_database(data_dir: Path, now: int, mounts: Sequence[Mount] | None = None) -> Database:
    """Opens or makes `<data_dir>/memory.db`. Raises SchemaTooNew, StoreCorrupt or StoreError; a file that is damaged or
    not ours is left as it is. `mounts`: what the system says is mounted, when it is not to be asked."""
    path = data_dir / "memory.db"
    prepare_file(path)
    check_before_opening(path)
    mount = mount_of(data_dir, known_mounts() if mounts is None else mounts)
    remote = mount is not None and mount.is_network
    if mount is not None and remote:
        _log.warning("%s is on %s, a network file system (%s): no shared memory", path, mount.place, mount.kind)
    database = Database(path, wal=not remote)
    database.network_mount = f"{mount.place} ({mount.kind})" if mount is not None and remote else ""
    try:
        with database.read() as connection:
            check_identity(connection, path)
            is_new = not first_value(connection, "pragma user_version")
        migrate(database, MIGRATIONS, now)
        check_health(database)
        settle_restored(database, now)
        if is_new:
            settle_new(database, now)
    except BaseException:
        database.close()
        raise
    return database


def open_as_it_is(data_dir: Path) -> Database | None:
    """For a look without a worker: changes nothing. None when there is no database, or an older one that has to be
    brought up to date first. Raises SchemaTooNew, StoreCorrupt or StoreError."""
    inspect_closed(data_dir)
    path = data_dir / "memory.db"
    if not path.exists() or not path.stat().st_size:
        return None
    mount = mount_of(data_dir, known_mounts())
    database = Database(path, wal=mount is None or not mount.is_network)
    with database.read() as connection:
        version = int(first_value(connection, "pragma user_version"))
    if version == NEWEST:
        return database
    database.close()
    return None


def prepare_file(path: Path) -> None:
    """Makes the directory and an empty file for the owner only, before SQLite can make a readable one (trap M10)."""
    try:
        private_dir(path.parent)
        _refuse_lost(path)
        if not path.exists():
            _make_private(path)
        narrow_files(path)
        _set_aside_garbage_wal(path)
    except OSError as error:
        kind = StoreFull if error.errno == errno.ENOSPC else StoreError
        raise kind(f"{path.parent} cannot be used: {error}") from error


def inspect_closed(data_dir: Path) -> None:
    """Raises what opening the store would raise for the file that is there, and changes nothing: for a look from
    outside while no worker can say it."""
    path = data_dir / "memory.db"
    _refuse_lost(path)
    if not path.exists():
        return
    check_before_opening(path)
    if 0 < path.stat().st_size <= CHECKED_SIZE_BYTES and (problem := problem_of(path)):
        raise StoreCorrupt(f"{path} is damaged ({problem})")


def check_before_opening(path: Path) -> None:
    """Reads who wrote the file before anything in it can change: opening it in earnest sets its journal mode."""
    if path.stat().st_size == 0:
        return
    with translated_errors(path):
        connection = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            check_identity(connection, path)
        except (apsw.ReadOnlyError, apsw.CantOpenError):
            _log.info("%s has to be recovered before it can be read", path)  # it is looked at again when that is done
        finally:
            connection.close()


def check_identity(connection: Connection, path: Path) -> None:
    """Refuses a file that holds something else, or that a newer version wrote."""
    tables = int(first_value(connection, "select count(*) from sqlite_schema"))
    application = int(first_value(connection, "pragma application_id"))
    version = int(first_value(connection, "pragma user_version"))
    if tables and application != APPLICATION_ID:
        raise StoreCorrupt(f"{path} is a SQLite file, but not a memory store")
    if version > NEWEST:
        raise SchemaTooNew(
            f"{path} has schema {version}, this version knows {NEWEST}: it is left as it is; install a newer version"
        )


def migrate(database: Database, steps: tuple[tuple[int, str], ...], now: int) -> None:
    """Applies the steps that are missing; a step that fails leaves the file at the step before."""
    with database.read() as connection:
        version = int(first_value(connection, "pragma user_version"))
    missing = [step for step in steps if step[0] > version]
    if version and missing:
        back_up(database, now, version=version)
    for number, sql in missing:
        with database.write() as connection:
            offer_functions(connection)
            if int(first_value(connection, "pragma user_version")) < number:  # another process may have been faster
                connection.execute(sql)
                connection.execute(f"pragma user_version = {number}")
                faults.reach("migration.before_commit")
        faults.reach("migration.after_commit")
        _log.info("%s is at schema %d now", database.path.name, number)


def check_health(database: Database) -> None:
    """At start, within some 50 ms. Raises StoreCorrupt."""
    with database.read() as connection:
        if not first_value(connection, "select 1 from sqlite_schema where name = 'meta'"):
            raise StoreCorrupt(f"{database.path} is damaged (it has lost its tables)")
    if database.size_bytes() <= CHECKED_SIZE_BYTES:
        read_through(database)


def read_through(database: Database) -> None:
    """Looks at every page. Raises StoreCorrupt. A large file takes seconds, in which others read and write."""
    with database.read(from_disk=True) as connection:
        verdict = str(first_value(connection, "pragma quick_check(1)"))
        if verdict != "ok":
            raise StoreCorrupt(f"{database.path} is damaged ({verdict})")


def _make_private(path: Path) -> None:
    with contextlib.suppress(FileExistsError):  # another opener was faster: the file is private all the same
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _set_aside_garbage_wal(path: Path) -> None:
    """SQLite silently writes over a WAL without its mark. What is in it cannot be read, but is not ours to destroy."""
    wal = path.with_name(path.name + "-wal")
    try:
        with wal.open("rb") as file:  # not the database: closing this handle drops no lock of it (trap B92)
            begin = file.read(4)
    except FileNotFoundError:
        return
    if not begin or begin in WAL_MAGIC:
        return
    aside = wal.with_name(f"{wal.name}.damaged-{time.time_ns()}")
    wal.replace(aside)
    _log.error("%s was unreadable and is kept as %s: the last turns before the crash may be missing", wal, aside)


def _refuse_lost(path: Path) -> None:
    """Conversations without a database are a loss, not a new user (trap B90): a new store would clear them away."""
    if (path.exists() and path.stat().st_size) or not _holds_conversations(path.parent):
        return
    what = "empty" if path.exists() else "missing"
    raise StoreCorrupt(f"{path} is {what}, but {path.parent / 'conversations'} is not: the database was lost")


def _holds_conversations(data_dir: Path) -> bool:
    folder = data_dir / "conversations"
    return folder.is_dir() and any(folder.iterdir())
