"""One worker per data directory, held by the kernel: the lock ends with the process, however it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from memory_tencentdb.holder import ENDED, LOCK_FILE, SERVING, STARTING, write_holder
from memory_tencentdb.locks import try_lock
from memory_tencentdb_worker.errors import AlreadyRunning


class WorkerLock:
    """Holds `<data_dir>/.worker.lock` and the directory itself from construction to `release`. Raises AlreadyRunning
    when another process does.

    The file is never removed by us: a starter that holds the lock of a removed file would not exclude the next one.
    Should somebody else remove it, the directory's lock still does. The file names its holder and what that does, for a
    client that must decide whether a silent worker may be ended, and whether the last one left as it should.
    """

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / LOCK_FILE
        self._directory = _hold_directory(data_dir)
        self._handle: int | None = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if not try_lock(self._handle):
            self._close()
            raise AlreadyRunning(f"another worker holds {data_dir}")
        write_holder(self._handle, STARTING)

    def mark_serving(self) -> None:
        """From now on the worker answers in time, or is taken for frozen."""
        if self._handle is not None:
            write_holder(self._handle, SERVING)

    def release(self) -> None:
        """The worker leaves as it should. Safe to call twice."""
        if self._handle is not None:
            write_holder(self._handle, ENDED)
            self._close()

    def _close(self) -> None:
        for descriptor in (self._directory, self._handle):
            if descriptor is not None:
                os.close(descriptor)
        self._directory = self._handle = None


def _hold_directory(data_dir: Path) -> int | None:
    """The directory's own lock; None where directories cannot be locked (network file systems, Windows)."""
    if sys.platform == "win32":
        return None
    descriptor = os.open(data_dir, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if try_lock(descriptor):
            return descriptor
    except OSError:
        os.close(descriptor)
        return None
    os.close(descriptor)
    raise AlreadyRunning(f"another worker holds {data_dir}")
