"""Brings a database file to the newest schema, one transaction a step, with a backup before the first."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from datetime import UTC, datetime
from pathlib import Path

import apsw

from memory_tencentdb.paths import private_dir
from memory_tencentdb_worker.errors import SchemaTooNew, StoreCorrupt, StoreError, StoreFull
from memory_tencentdb_worker.store.connection import Database, first_value, narrow_files
from memory_tencentdb_worker.store.schema import APPLICATION_ID, MIGRATIONS

_log = logging.getLogger(__name__)

NEWEST = MIGRATIONS[-1][0]

CHECKED_SIZE_BYTES = 8 * 1024 * 1024
"""Files up to this size are read through at every start (some 50 ms); larger ones when something looks wrong."""


def open_database(data_dir: Path, now: int) -> Database:
    """Opens or makes `<data_dir>/memory.db`. Raises SchemaTooNew, StoreCorrupt or StoreError; a damaged file is
    left as it is."""
    path = data_dir / "memory.db"
    prepare_file(path)
    database = Database(path)
    try:
        check_identity(database)
        migrate(database, MIGRATIONS, now)
        check_health(database)
    except BaseException:
        database.close()
        raise
    return database


def prepare_file(path: Path) -> None:
    """Makes the directory and an empty file for the owner only, before SQLite can make a readable one (trap M10)."""
    try:
        private_dir(path.parent)
        if not path.exists():
            _make_private(path)
        elif path.stat().st_size == 0 and _holds_conversations(path.parent):
            raise StoreCorrupt(
                f"{path} is empty, but {path.parent / 'conversations'} is not: the database was lost. "
                "Restore a backup, or move the empty file away to begin anew"
            )
        narrow_files(path)
    except OSError as error:
        kind = StoreFull if error.errno == errno.ENOSPC else StoreError
        raise kind(f"{path.parent} cannot be used: {error}") from error


def check_identity(database: Database) -> None:
    """Refuses a file that holds something else, or that a newer version wrote."""
    with database.read() as connection:
        tables = int(first_value(connection, "select count(*) from sqlite_schema"))
        application = int(first_value(connection, "pragma application_id"))
        version = int(first_value(connection, "pragma user_version"))
    if tables and application != APPLICATION_ID:
        raise StoreCorrupt(f"{database.path} is a SQLite file, but not a memory store: it is left as it is")
    if version > NEWEST:
        raise SchemaTooNew(f"{database.path} has schema {version}; this version knows {NEWEST}: install a newer one")


def migrate(database: Database, steps: tuple[tuple[int, str], ...], now: int) -> None:
    """Applies the steps that are missing; a step that fails leaves the file at the step before."""
    with database.read() as connection:
        version = int(first_value(connection, "pragma user_version"))
    missing = [step for step in steps if step[0] > version]
    if version and missing:
        back_up(database, version, now)
    for number, sql in missing:
        with database.write() as connection:
            if int(first_value(connection, "pragma user_version")) < number:  # another process may have been faster
                connection.execute(sql)
                connection.execute(f"pragma user_version = {number}")
        _log.info("%s is at schema %d now", database.path.name, number)


def back_up(database: Database, version: int, now: int) -> Path:
    """A consistent copy under `.backup/`. Raises StoreError when it cannot be made."""
    stamp = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%d_%H%M%S")
    target = private_dir(database.path.parent / ".backup") / f"memory-v{version}-{stamp}.db"
    os.close(os.open(target, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600))
    copier = apsw.Connection(os.fspath(database.path))
    try:
        copier.execute("vacuum into ?", (os.fspath(target),))
    except apsw.Error as error:
        raise StoreError(f"no backup could be made before the schema change: {error}") from error
    finally:
        copier.close()
    return target


def check_health(database: Database) -> None:
    with database.read() as connection:
        if not first_value(connection, "select 1 from sqlite_schema where name = 'meta'"):
            raise StoreCorrupt(f"{database.path} has lost its tables: it is left as it is; restore a backup")
        if database.path.stat().st_size > CHECKED_SIZE_BYTES:
            return
        verdict = str(first_value(connection, "pragma quick_check(1)"))
    if verdict != "ok":
        raise StoreCorrupt(f"{database.path} is damaged ({verdict}): it is left as it is; restore a backup")


def _make_private(path: Path) -> None:
    with contextlib.suppress(FileExistsError):  # another opener was faster: the file is private all the same
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _holds_conversations(data_dir: Path) -> bool:
    folder = data_dir / "conversations"
    return folder.is_dir() and any(folder.iterdir())
