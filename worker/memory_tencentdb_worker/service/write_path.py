"""Tells a write that stands still from one that is slow.

A deadlock in the way of the writes leaves a worker that answers handshakes, recalls, and keeps no turn any more. It
cannot be seen from outside: a slow disk looks the same. From inside it can. A thread that is at a write and has neither
used the processor nor waited for the disk for a whole minute, while another write to the same disk takes no time,
waits for something that will not come.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from memory_tencentdb_worker.models import Writer

STUCK_SECONDS = 60.0
MOST_COUNTED_SECONDS = 2.0
"""A look counts for no more: a process that was stopped for an hour has not stood still for an hour."""

UNSEEN_FACTOR = 10
"""So much longer where the system does not show what a single thread does."""

DISK_SECONDS = 1.0
PROBE = ".disk-probe"
_SLEEPS = "S"


class _Standing(NamedTuple):
    work: str
    seconds: float


class WritePath:
    """`writers` names the threads that are at a write now. For one thread, which calls `stuck` every few seconds."""

    def __init__(
        self,
        writers: Callable[[], Iterable[Writer]],
        data_dir: Path,
        limit_seconds: float = STUCK_SECONDS,
        *,
        clock: Callable[[], float] = time.monotonic,
        work_of: Callable[[int], str] | None = None,
    ) -> None:
        """`work_of` gives a mark of a thread's work that changes while it works; "" while it must not be judged."""
        self._writers, self._data_dir, self._clock = writers, data_dir, clock
        self._work_of = work_of or work_of_thread
        self._limit_seconds = limit_seconds if work_of or sys.platform == "linux" else limit_seconds * UNSEEN_FACTOR
        self._looked_at = clock()
        self._standing: dict[Writer, _Standing] = {}

    def stuck(self) -> str:
        """What stands still, in a sentence; "" as long as every write moves or may be waiting for the disk."""
        now = self._clock()
        counted = min(now - self._looked_at, MOST_COUNTED_SECONDS)
        self._looked_at = now
        self._standing = {writer: self._look_at(writer, counted) for writer in self._writers()}
        if max((each.seconds for each in self._standing.values()), default=0.0) < self._limit_seconds:
            return ""
        if not disk_answers(self._data_dir):
            self._standing.clear()
            return ""
        return f"a write has stood still for {self._limit_seconds:.0f} s although the disk answers"

    def _look_at(self, writer: Writer, counted: float) -> _Standing:
        work = self._work_of(writer.thread)
        known = self._standing.get(writer)
        stands = known is not None and known.work == work != ""
        return _Standing(work, known.seconds + counted if known is not None and stands else 0.0)


def work_of_thread(native_id: int) -> str:
    """The processor time of a thread of ours that sleeps; "" for one that runs, waits for the disk, or has ended."""
    if sys.platform != "linux":
        return "unseen"
    try:
        facts = Path(f"/proc/self/task/{native_id}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    state, *rest = facts.rpartition(")")[2].split()
    user_ticks, system_ticks = rest[10], rest[11]
    return f"{user_ticks}/{system_ticks}" if state == _SLEEPS else ""


def disk_answers(folder: Path) -> bool:
    """Whether a small write is on the disk at once. A disk that refuses it is in the way itself."""
    path = folder / PROBE
    begun = time.monotonic()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, b"?")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            path.unlink()
    except OSError:
        return False
    return time.monotonic() - begun < DISK_SECONDS
