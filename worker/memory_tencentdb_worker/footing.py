"""What a worker stands on: its socket, its lock's file and its database, each at its path.

Without the socket nobody reaches it, without the lock's file nobody can tell whose the data directory is, and without
the database nothing can be kept. None of them can be put back by the worker itself: it leaves, so that whoever needs
one starts another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

REACH_PATIENCE_SECONDS = 2.0
DATA_PATIENCE_SECONDS = 10.0
"""Who has moved a data directory away by mistake may put it back."""


@dataclass(frozen=True)
class Ground:
    """One file, in a person's words, and how long it may be away."""

    name: str
    path: Path
    patience_seconds: float


class Footing:
    """Made while everything is in its place. Not thread-safe."""

    def __init__(self, grounds: Iterable[Ground], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._inodes = {ground: _inode(ground.path) for ground in grounds}
        self._missed_at: dict[Ground, float] = {}

    def lost(self) -> str:
        """What has been gone, or has been another file, for too long; "" as long as everything is there."""
        now = self._clock()
        for ground, inode in self._inodes.items():
            if _inode(ground.path) == inode:
                self._missed_at.pop(ground, None)
            elif now - self._missed_at.setdefault(ground, now) >= ground.patience_seconds:
                return f"{ground.name} {ground.path} was removed or replaced"
        return ""


def worker_footing(data_dir: Path, lock_file: Path, socket_file: Path) -> Footing:
    return Footing(
        [
            Ground("the database", data_dir / "memory.db", DATA_PATIENCE_SECONDS),
            Ground("the socket", socket_file, REACH_PATIENCE_SECONDS),
            Ground("the lock's file", lock_file, REACH_PATIENCE_SECONDS),
        ]
    )


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
