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
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from memory_tencentdb import faults
from memory_tencentdb_worker.errors import StoreCorrupt, StoreError
from memory_tencentdb_worker.models import Writer
from memory_tencentdb_worker.store.sqlite_errors import translated_errors

_log = logging.getLogger(__name__)

BUSY_TIMEOUT_MS = 5_000
IDLE_READERS = 4
AUTOCHECKPOINT_PAGES = 4_000
"""The WAL is copied back in idle time (`checkpoint`); this bound is for a store that is never idle."""

WAL_KEPT_BYTES = 16 * 1024 * 1024
"""A WAL that a reader has made longer than this is cut back once everything in it is copied."""

Connection = apsw.Connection

Row = tuple[Any, ...]


class Database:
    """An open `memory.db`. Any thread may use it. `wal` False: for a file system whose locks cannot be trusted."""

    def __init__(self, path: Path, *, wal: bool = True) -> None:
        self.path = path
        self.network_mount = ""
        self.damage = ""
        """What was found damaged; from then on nothing is written, so that turns stay where they are safe."""
        self._write_lock = threading.Lock()
        self.writer: Writer | None = None
        self._readers: deque[apsw.Connection] = deque()
        self._readers_lock = threading.Lock()
        self._closed = False
        with translated_errors(path):
            self._writer = self._open_writer("wal" if wal else "delete")
        self._inode = self._seen_inode()

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[apsw.Connection]:
        """One transaction, committed at the end of the block, undone by any exception. `durable`: it is on the disk at
        the end, whatever happens to the machine; others survive the death of the process and follow within seconds.

        Waits for other writers, ours and strangers, for BUSY_TIMEOUT_MS altogether; then StoreError `store_busy`.
        """
        until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
        if not self._write_lock.acquire(timeout=BUSY_TIMEOUT_MS / 1000):
            raise StoreError(f"{self.path} is busy: other writes wait in front of this one", code="store_busy")
        try:
            with self._as_writer(), self.guarded():
                self._refuse_unsafe_write()
                self._writer.set_busy_timeout(max(1, round((until - time.monotonic()) * 1000)))
                self._writer.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
                self._writer.execute("begin immediate")
                try:
                    yield self._writer
                    self._writer.execute("commit")
                except BaseException:
                    if self._writer.in_transaction:  # a full disk has undone it already
                        self._writer.execute("rollback")
                    raise
        finally:
            self._write_lock.release()

    @contextmanager
    def read(self, *, from_disk: bool = False) -> Iterator[apsw.Connection]:
        """One snapshot of committed data, which cannot be written to. `from_disk`: not out of a reader's memory."""
        with self.guarded():
            connection = self._new_reader() if from_disk else self._borrow_reader()
            try:
                connection.execute("begin")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")
                self._return_reader(connection)

    def checkpoint(self) -> bool:
        """Copies the WAL back as far as readers allow, waiting for nobody, and cuts it when it has grown long."""
        with self._write_lock, self._as_writer(), self.guarded():
            if self._closed or self.damage:
                return False
            pages, copied = self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            if pages == copied and self.wal_bytes() > WAL_KEPT_BYTES:
                self._writer.set_busy_timeout(0)
                self._writer.execute("pragma wal_checkpoint(truncate)").fetchall()  # a row says busy, it does not raise
            return pages == copied

    def rewrite(self) -> bool:
        """Writes the whole file anew, without what was deleted from it, and cuts the WAL. False: somebody kept the WAL
        from being cut. Takes seconds when large, in which other writes wait or are refused as busy."""
        with self._write_lock, self.guarded():
            self._refuse_unsafe_write()
            self._writer.set_busy_timeout(BUSY_TIMEOUT_MS)
            self._writer.execute("pragma secure_delete = on").fetchall()
            try:
                self._writer.execute("vacuum")
                busy, _, _ = self._writer.execute("pragma wal_checkpoint(truncate)").fetchone() or (1, 0, 0)
            finally:
                self._writer.execute("pragma secure_delete = off").fetchall()
            return not busy

    def check_place(self) -> None:
        """Raises StoreError `store_moved` when the file in its place is not the one that is open (any more)."""
        if self._seen_inode() != self._inode:
            raise StoreError(f"{self.path} was moved, removed or replaced while in use", code="store_moved")

    def wal_bytes(self) -> int:
        return _size(self.path.with_name(self.path.name + "-wal"))

    def size_bytes(self) -> int:
        return _size(self.path)

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
            self._writer.set_busy_timeout(BUSY_TIMEOUT_MS)
            with translated_errors(self.path):
                try:
                    faults.reach("checkpoint.before")
                    self._writer.execute("pragma wal_checkpoint(truncate)").fetchall()
                    faults.reach("checkpoint.after")
                finally:
                    self._writer.close()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Errors in our words; damage is remembered."""
        try:
            with translated_errors(self.path):
                yield
        except StoreCorrupt as error:
            if not self.damage:
                _log.error("%s", error)
                self.damage = str(error)
            raise

    @contextmanager
    def _as_writer(self) -> Iterator[None]:
        """For who holds the lock: a write that stands still has to be seen by others."""
        self.writer = Writer(threading.get_native_id(), time.monotonic())
        try:
            yield
        finally:
            self.writer = None

    def _refuse_unsafe_write(self) -> None:
        """What is written to a file that is no longer in its place would be gone with this process."""
        if self._closed:
            raise StoreError("the store is closed", code="store_closed")
        if self.damage:
            raise StoreCorrupt(f"nothing is written any more: {self.damage}")
        self.check_place()

    def _seen_inode(self) -> int:
        try:
            return self.path.stat().st_ino
        except OSError:
            return 0

    def _open_writer(self, wanted_mode: str) -> apsw.Connection:
        connection = self._connect()
        self.journal_mode = str(first_value(connection, f"pragma journal_mode = {wanted_mode}"))
        if self.journal_mode != "wal":
            _log.warning("%s uses journal mode %s: reads and writes wait for each other", self.path, self.journal_mode)
        connection.execute(f"pragma wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}")
        connection.execute(f"pragma journal_size_limit = {WAL_KEPT_BYTES}")
        connection.execute("pragma foreign_keys = on")
        narrow_files(self.path)
        return connection

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(os.fspath(self.path))
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.execute("pragma trusted_schema = off")
        return connection

    def _borrow_reader(self) -> apsw.Connection:
        with self._readers_lock:
            if self._closed:
                raise StoreError("the store is closed", code="store_closed")
            if self._readers:
                return self._readers.pop()
        return self._new_reader()

    def _new_reader(self) -> apsw.Connection:
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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # not there, or out of reach: the next write says so
