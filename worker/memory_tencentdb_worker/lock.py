"""One worker per data directory, held by the kernel: the lock ends with the process, however it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from memory_tencentdb_worker.errors import AlreadyRunning

LOCK_FILE = ".worker.lock"


class WorkerLock:
    """Holds `<data_dir>/.worker.lock` from construction to `release`. Raises AlreadyRunning when another process does.

    The file is never removed: a starter that holds the lock of a removed file would not exclude the next one. It
    tells the pid of its holder to a reader; that is a hint, the lock is the truth.
    """

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / LOCK_FILE
        self._handle: int | None = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            _lock(self._handle)
        except OSError as error:
            os.close(self._handle)
            self._handle = None
            raise AlreadyRunning(f"another worker holds {data_dir}") from error
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Safe to call twice."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        """flock, not lockf: a POSIX lock is lost when any other handle of the file is closed in this process."""
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
