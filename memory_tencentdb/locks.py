"""Locks between processes, held by the kernel: they vanish with their holder, so none can be left behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import TracebackType

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

POLL_SECONDS = 0.02


def try_lock(descriptor: int) -> bool:
    """Takes the exclusive lock of an open file, or says at once that somebody else has it."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def lock(descriptor: int) -> None:
    """Waits for the exclusive lock of an open file; it is released when the file is closed."""
    if sys.platform == "win32":
        while not try_lock(descriptor):
            time.sleep(POLL_SECONDS)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


class LockFile:
    """A named lock on a file of its own. `acquire` waits up to `seconds`; as a context it must have been acquired."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self, seconds: float = 0.0) -> bool:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        until = time.monotonic() + seconds
        while not try_lock(descriptor):
            if time.monotonic() >= until:
                os.close(descriptor)
                return False
            time.sleep(POLL_SECONDS)
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> LockFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
