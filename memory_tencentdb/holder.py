"""Which process holds a data directory: written by the holder of the worker's lock, believed only after a check.

The kernel's lock is the truth. Its file names the process that took it together with the time at which that process
began, so that a pid which the system has given to somebody else meanwhile is never taken for the worker (traps B04,
B05). The time is counted in ticks since the boot: setting the clock changes nothing (trap B06).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .locks import POLL_SECONDS, try_lock

LOCK_FILE = ".worker.lock"
STARTING, SERVING, ENDED = "starting", "serving", "ended"
LINE_BYTES = 80
STARTING_LIMIT_SECONDS = 120.0
"""A worker that is still starting may be moving a large database to a new version; after this it hangs."""


class Holder(NamedTuple):
    """A process and the state in which it said it was, at `since` (epoch seconds)."""

    pid: int
    mark: str
    state: str
    since: float

    @property
    def is_starting(self) -> bool:
        return self.state == STARTING and 0 <= time.time() - self.since < STARTING_LIMIT_SECONDS

    def exists(self) -> bool:
        """Whether that very process is there. A zombie is not."""
        return bool(self.mark) and process_mark(self.pid) == self.mark


def write_holder(descriptor: int, state: str) -> None:
    """For the holder of the lock, on the descriptor that holds it. A full disk must not stop a worker: one that is not
    named here is never signalled, that is all."""
    line = f"{os.getpid()} {process_mark(os.getpid()) or '-'} {state}".ljust(LINE_BYTES - 1) + "\n"
    with suppress(OSError):
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, line.encode("ascii"))  # always as long, so that no reader meets half of the last one


def find_holder(data_dir: Path) -> Holder | None:
    """The worker that holds this data directory now. None when nobody does, or nobody that can be told for sure."""
    noted = read_holder(data_dir)
    return noted if noted is not None and noted.exists() and is_held(data_dir) else None


def read_holder(data_dir: Path) -> Holder | None:
    """What the lock's file says, whether or not it still holds true."""
    path = data_dir / LOCK_FILE
    try:
        pid, mark, state = path.read_text(encoding="ascii").split()
        return Holder(int(pid), "" if mark == "-" else mark, state, path.stat().st_mtime)
    except (OSError, ValueError):
        return None


def is_held(data_dir: Path) -> bool:
    """Whether a process has the lock. Call it under the start lock: it takes a free lock for a moment."""
    try:
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def end_holder(
    data_dir: Path, holder: Holder, term_seconds: float, kill_seconds: float, reap: Callable[[], None]
) -> bool:
    """Asks the process to end, then ends it; whether it is gone and with it its lock. `reap` is called then: a child
    stays in the table of processes until its parent has looked. Without signals (Windows) nothing is done."""
    for number, seconds in (("SIGTERM", term_seconds), ("SIGKILL", kill_seconds)):
        _signal(holder, number)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            reap()
            if not holder.exists() and not is_held(data_dir):  # its last thread may outlive its first
                return True
            time.sleep(POLL_SECONDS)
    return False


def _signal(holder: Holder, name: str) -> None:
    """Nothing when the process is gone. One that is stopped has to go on to hear it."""
    if sys.platform == "win32" or not holder.exists():
        return
    with suppress(ProcessLookupError):
        os.kill(holder.pid, signal.Signals[name])
        os.kill(holder.pid, signal.SIGCONT)


def process_mark(pid: int) -> str:
    """What tells a process from every other one that has or will have its number; "" when it is gone or unknown."""
    if sys.platform == "linux":
        return _linux_mark(pid)
    return _ps_mark(pid) if sys.platform == "darwin" else ""


def _linux_mark(pid: int) -> str:
    try:
        facts = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        return ""
    state, started_ticks = facts[0], facts[19]
    return "" if state in (b"Z", b"X") else f"{boot[:8]}-{started_ticks.decode('ascii')}"


def _ps_mark(pid: int) -> str:
    import subprocess

    command = ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)]
    environment = {"LC_ALL": "C", "TZ": "UTC"}
    shown = subprocess.run(command, capture_output=True, text=True, env=environment, check=False).stdout.split()  # noqa: S603
    return "" if not shown or shown[0].startswith("Z") else "-".join(shown[1:])
