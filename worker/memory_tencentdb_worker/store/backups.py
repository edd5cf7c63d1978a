"""Copies of `memory.db` under `.backup/`: made whole and checked, kept in a small number, and known again when one of
them is put in the database's place."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import shutil
from datetime import UTC, datetime
from pathlib import Path

import apsw

from memory_tencentdb.paths import private_dir
from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import StoreFacts
from memory_tencentdb_worker.store.connection import Database, first_value
from memory_tencentdb_worker.store.sqlite_errors import translated_errors

_log = logging.getLogger(__name__)

FOLDER = ".backup"
KEPT = 3
"""Of the daily copies; those made before a schema change are kept as long, counted apart."""

READABLE = ("conversations", "records", "scene_blocks", "persona.md", ".metadata", "users")
"""What is made from the database and shows a later state than a restored one."""

_NAME = re.compile(r"memory(-v\d+)?-(\d{8}_\d{6})\.db", re.ASCII)
_MADE_AT = "backup_made_at"


def back_up(database: Database, now: int, *, version: int | None = None) -> Path:
    """A consistent, checked copy of the running database; `version` names the schema it is kept for. An unfinished one
    never has a backup's name. Raises StoreError, StoreFull, StoreCorrupt."""
    database.check_place()
    kind = "" if version is None else f"-v{version}"
    folder = database.path.parent / FOLDER
    target = folder / f"memory{kind}-{_stamp(now)}.db"
    unfinished = folder / f".{target.name}.tmp"
    try:
        private_dir(folder)
        for rest in folder.glob(".memory*.tmp*"):  # of a process that ended half-way
            rest.unlink(missing_ok=True)
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _copy(database, unfinished)
        _mark(unfinished, now)
        unfinished.replace(target)
        _drop_old(folder, kind)
    except OSError as error:
        raise StoreError(f"no backup could be made in {folder}: {error.strerror or error}", code="backup") from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return target


def backups(data_dir: Path) -> list[Path]:
    """All copies, the newest first."""
    folder = data_dir / FOLDER
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, key=_stamp_of, reverse=True)


def file_facts(database: Database) -> StoreFacts:
    """Never raises: what cannot be read is zero or empty."""
    try:
        newest = next(iter(backups(database.path.parent)), None)
    except OSError:
        newest = None
    return StoreFacts(
        path=str(database.path),
        size_bytes=database.size_bytes(),
        wal_bytes=database.wal_bytes(),
        journal_mode=database.journal_mode,
        network_mount=database.network_mount,
        damage=database.damage,
        backup=str(newest or ""),
        backup_at=None if newest is None else _made_at(newest),
        writer=database.writer,
    )


def newest_good_backup(data_dir: Path) -> Path | None:
    """The newest copy that is whole. Reads each candidate through."""
    return next((path for path in backups(data_dir) if not problem_of(path)), None)


def problem_of(path: Path) -> str:
    """What is wrong with a database file that nobody has open, "" when nothing is. Writes nothing."""
    try:
        with translated_errors(path):
            connection = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READONLY)
            try:
                if not first_value(connection, "select 1 from sqlite_schema where name = 'meta'"):
                    return "its tables are missing"
                verdict = str(first_value(connection, "pragma quick_check(1)"))
            finally:
                connection.close()
    except StoreError as error:
        return str(error)
    return "" if verdict == "ok" else verdict


def restore_command(data_dir: Path, backup: Path | None, now: int) -> str:
    """What a person types to put a backup in the place of a damaged database, which is moved aside. Without a backup:
    to begin anew, with the conversations kept as text."""
    aside = f"damaged-{_stamp(now)}"
    steps = [f"cd {shlex.quote(str(data_dir))}", f"mkdir {aside}"]
    if any(data_dir.glob("memory.db*")):
        steps.append(f"mv memory.db* {aside}/")
    if backup is not None:
        steps.append(f"cp {shlex.quote(str(backup.relative_to(data_dir)))} memory.db")
    elif (data_dir / "conversations").is_dir():
        steps.append(f"mv conversations {aside}/")
    return "memory-tencentdb stop; " + " && ".join([*steps, "memory-tencentdb start"])


def settle_restored(database: Database, now: int) -> None:
    """A database that says it is a backup was put in place by hand: cursors and schedule stand in it and fit, but the
    readable files show a later state. They are moved under `.backup/`, so that they are neither taken for a person's
    edits nor lost, and made anew."""
    with database.read() as connection:
        made_at = first_value(connection, "select value from meta where key = ?", (_MADE_AT,))
    if made_at is None:
        return
    aside = _set_aside(database.path.parent, f"before-restore-{_stamp(now)}")
    with database.write() as connection:
        connection.execute("delete from projections")
        connection.execute("delete from meta where key = ?", (_MADE_AT,))
    _log.warning("a backup of %s is in use now; what the readable files held later is in %s", _day(made_at), aside)


def settle_new(database: Database, now: int) -> None:
    """A database that was made a moment ago has no readable files: what lies there is left from one that was deleted,
    and whoever deleted it does not want it back."""
    data_dir = database.path.parent
    if any(_holds_text(data_dir / name) for name in READABLE):
        aside = _set_aside(data_dir, f"before-new-{_stamp(now)}")
        _log.warning("%s begins anew; readable files of a former database are in %s now", database.path, aside)


def _holds_text(readable: Path) -> bool:
    return any(readable.iterdir()) if readable.is_dir() else readable.exists()


def _set_aside(data_dir: Path, name: str) -> Path:
    """Moves the readable files under `.backup/`, so that they are neither taken for a person's edits nor lost."""
    aside = data_dir / FOLDER / name
    try:
        for readable in READABLE:
            if (data_dir / readable).exists():
                shutil.move(data_dir / readable, private_dir(aside) / readable)
    except OSError as error:
        raise StoreError(f"the files of the former state cannot be moved to {aside}: {error}", code="files") from error
    return aside


def _copy(database: Database, target: Path) -> None:
    with database.guarded():
        reader = apsw.Connection(os.fspath(database.path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            reader.execute("vacuum into ?", (os.fspath(target),))
        finally:
            reader.close()


def _mark(copy: Path, now: int) -> None:
    with translated_errors(copy):
        connection = apsw.Connection(os.fspath(copy))
        try:
            connection.execute("insert or replace into meta(key, value) values(?, ?)", (_MADE_AT, str(now)))
        finally:
            connection.close()
    problem = problem_of(copy)
    if problem:
        raise StoreError(f"the copy {copy} is no good: {problem}", code="backup")


def _drop_old(folder: Path, kind: str) -> None:
    of_this_kind = [path for path in backups(folder.parent) if _kind_of(path) == kind]
    for path in of_this_kind[KEPT:]:
        path.unlink(missing_ok=True)


def _kind_of(path: Path) -> str:
    match = _NAME.fullmatch(path.name)
    return (match[1] or "") if match else ""


def _stamp_of(path: Path) -> str:
    match = _NAME.fullmatch(path.name)
    return match[2] if match else ""


def _made_at(path: Path) -> int:
    made = datetime.strptime(_stamp_of(path), "%Y%m%d_%H%M%S").replace(tzinfo=UTC)
    return round(made.timestamp() * 1000)


def _stamp(now: int) -> str:
    return datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%d_%H%M%S")


def _day(made_at: object) -> str:
    return datetime.fromtimestamp(int(str(made_at)) / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
