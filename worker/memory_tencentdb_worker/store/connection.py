"""Connections to `memory.db`: one writer behind a lock, readers that are lent out, errors in our own words.

Every write is one `begin immediate` transaction: a deferred one fails at once when another process has written since
its first read, whatever the busy time-out (trap M8). Every read is one transaction too, so that a method that asks
several questions gets one answer. Nothing here opens the database file other than through SQLite: closing a plain
file handle would drop the process's locks (trap B92).
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from memory_tencentdb_worker.errors import InvalidInput, StoreCorrupt, StoreError, StoreFull

_log = logging.getLogger(__name__)

BUSY_TIMEOUT_MS = 5_000
IDLE_READERS = 4
AUTOCHECKPOINT_PAGES = 4_000
"""The WAL is copied back in idle time (`checkpoint`); this bound is for a store that is never idle."""

Connection = apsw.Connection

Row = tuple[Any, ...]


class Database:
    """An open `memory.db`. Any thread may use it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.vectors_problem = ""
        self._write_lock = threading.Lock()
        self._readers: deque[apsw.Connection] = deque()
        self._readers_lock = threading.Lock()
        self._closed = False
        with translated_errors(path):
            self._writer = self._open_writer()

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """One transaction, committed at the end of the block, undone by any exception."""
        with self._write_lock, translated_errors(self.path):
            if self._closed:
                raise StoreError("the store is closed", code="store_closed")
            connection = self._writer
            connection.execute("begin immediate")
            try:
                yield connection
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:  # a full disk has undone it already
                    connection.execute("rollback")
                raise

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """One snapshot of committed data, which cannot be written to."""
        with translated_errors(self.path):
            connection = self._borrow_reader()
            try:
                connection.execute("begin")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")
                self._return_reader(connection)

    def checkpoint(self) -> bool:
        with self._write_lock, translated_errors(self.path):
            if self._closed:
                return False
            pages, copied = self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            return pages == copied

    def close(self) -> None:
        with self._write_lock:
            if self._closed:
                return
            self._closed = True
            with self._readers_lock:
                readers = list(self._readers)
                self._readers.clear()
            for reader in readers:
                reader.close()
            with translated_errors(self.path):
                try:
                    self._writer.execute("pragma wal_checkpoint(truncate)").fetchall()
                finally:
                    self._writer.close()

    def _open_writer(self) -> apsw.Connection:
        connection = self._connect()
        mode = str(first_value(connection, "pragma journal_mode = wal"))
        if mode != "wal":
            _log.warning("%s: this file system allows journal mode %s only: reads wait for writes", self.path, mode)
        connection.execute(f"pragma wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}")
        connection.execute("pragma journal_size_limit = 67108864")
        connection.execute("pragma synchronous = normal")
        connection.execute("pragma foreign_keys = on")
        narrow_files(self.path)
        return connection

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(os.fspath(self.path))
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.execute("pragma trusted_schema = off")
        self._load_vectors(connection)
        return connection

    def _load_vectors(self, connection: apsw.Connection) -> None:
        """Without the extension the store works by keywords alone; `vectors_problem` says why."""
        if self.vectors_problem:
            return
        try:
            import sqlite_vec

            connection.enable_load_extension(True)
            connection.load_extension(sqlite_vec.loadable_path())
            connection.enable_load_extension(False)
        except (ImportError, OSError, apsw.Error) as error:
            self.vectors_problem = f"{type(error).__name__}: {error}"
            _log.warning("vector search is unavailable: %s", self.vectors_problem)

    def _borrow_reader(self) -> apsw.Connection:
        with self._readers_lock:
            if self._closed:
                raise StoreError("the store is closed", code="store_closed")
            if self._readers:
                return self._readers.pop()
        connection = self._connect()
        connection.execute("pragma query_only = on")
        return connection

    def _return_reader(self, connection: apsw.Connection) -> None:
        with self._readers_lock:
            if not self._closed and len(self._readers) < IDLE_READERS:
                self._readers.append(connection)
                return
        connection.close()


def select(connection: apsw.Connection, sql: str, bindings: apsw.Bindings | None = None) -> list[Row]:
    return connection.execute(sql, bindings).fetchall()


def first_row(connection: apsw.Connection, sql: str, bindings: apsw.Bindings | None = None) -> Row | None:
    return connection.execute(sql, bindings).fetchone()


def first_value(connection: apsw.Connection, sql: str, bindings: apsw.Bindings | None = None) -> Any:
    """The first column of the first row; None when there is no row."""
    row = connection.execute(sql, bindings).fetchone()
    return None if row is None else row[0]


def narrow_files(path: Path) -> None:
    """Owner only: the database and what SQLite keeps beside it (which takes over its mode when made later)."""
    for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        if os.name == "posix" and name.exists() and name.stat().st_mode & 0o077:
            name.chmod(0o600)


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into ours."""
    try:
        yield
    except apsw.FullError as error:
        raise StoreFull(f"no space left for {path}: nothing was written") from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreCorrupt(f"{path} is damaged ({error}): it is left as it is; restore a backup") from error
    except apsw.BusyError as error:
        raise StoreError(f"{path} is held by another process", code="store_busy") from error
    except apsw.Error as error:
        raise StoreError(f"{path}: {type(error).__name__}: {error}") from error
    except UnicodeEncodeError as error:
        raise InvalidInput(f"the text is not valid Unicode: {error.reason} at {error.start}") from error
