"""What is known about the store's health between two writes: failures until a success, the disk, the files' sizes."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import StoreFacts
from memory_tencentdb_worker.service.reasons import KINDS, Reason, reason
from memory_tencentdb_worker.store.backups import restore_command
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.mounts import known_mounts, mount_of

MIB = 1024 * 1024

LOW_SPACE_BYTES = 100 * MIB
LOW_SPACE_SHARE = 0.05
"""Both have to be undercut: a small disk that is empty is not low, nor is the last twentieth of a big one."""

PROBED_BELOW_BYTES = MIB
"""With less space than this nobody waits for a capture to fail."""

LARGE_WAL_BYTES = 64 * MIB
"""Four times what the WAL grows to while nobody keeps an old state."""


SLOW_WRITE_SECONDS = 10.0
"""Twice as long as others wait for their turn."""

STORAGE_KEYS = ("path", "size_bytes", "wal_bytes", "journal_mode", "network_mount", "free_bytes", "backup")


class StoreWatch:
    """Thread-safe."""

    def __init__(self, store: Store, data_dir: Path, lock: Path | None = None) -> None:
        self._store, self._data_dir, self._lock_file = store, data_dir, lock
        self._guard = threading.Lock()
        self._troubles: dict[str, tuple[StoreError, int]] = {}  # by what failed: "read", "write", "backup"
        self._since: dict[str, int] = {}  # of conditions that are looked up

    def failed(self, what: str, error: StoreError, now: int) -> bool:
        """Kept until `succeeded` is told the same. False when the error says nothing about the store as a whole."""
        if error.code not in KINDS:
            return False
        with self._guard:
            known = self._troubles.get(what)
            self._troubles[what] = (error, known[1] if known else now)
        return True

    def succeeded(self, what: str) -> bool:
        """False when nothing was wrong."""
        with self._guard:
            return self._troubles.pop(what, None) is not None

    @property
    def wants_probe(self) -> bool:
        """Whether only a write can tell if writing works."""
        return "write" in self._troubles or free_and_total(self._data_dir)[0] < PROBED_BELOW_BYTES

    def reasons(self, now: int) -> list[Reason]:
        facts = self._store.facts()
        with self._guard:
            troubles = dict(self._troubles)
        found = [self._store_reason(what, error, since, facts) for what, (error, since) in troubles.items()]
        found += self._looked_up(facts, now)
        if any(each.code == "write_slow" for each in found):
            found = [each for each in found if each.code != "store_busy"]  # it is no other program that holds it
        return list({each.code: each for each in reversed(found)}.values())

    def shown(self) -> dict[str, Any]:
        """For `status`."""
        facts = self._store.facts()
        return {
            "path": facts.path,
            "size_bytes": facts.size_bytes,
            "wal_bytes": facts.wal_bytes,
            "journal_mode": facts.journal_mode,
            "network_mount": facts.network_mount or None,
            "free_bytes": free_and_total(self._data_dir)[0],
            "backup": facts.backup or None,
        }

    def _looked_up(self, facts: StoreFacts, now: int) -> list[Reason]:
        free, total = free_and_total(self._data_dir)
        conditions = {
            "store_corrupt": facts.damage,
            "data_dir": "" if total else f"the data directory {self._data_dir} is away",
            "lock_lost": self._lock_trouble(),
            "disk_low": self._lowfree_and_total(free, total),
            "write_slow": _slow_write(facts),
            "wal_large": _large_wal(facts),
            "network_file_system": _network(facts),
        }
        self._since = {code: self._since.get(code, now) for code, message in conditions.items() if message}
        return [self._reason(code, conditions[code], since, facts) for code, since in self._since.items()]

    def _lowfree_and_total(self, free: int, total: int) -> str:
        if not total or free >= min(LOW_SPACE_BYTES, total * LOW_SPACE_SHARE):
            return ""
        return f"only {free // MIB} MiB are left on {disk_of(self._data_dir)}"

    def _lock_trouble(self) -> str:
        if self._lock_file is None or self._lock_file.exists() or not self._data_dir.exists():
            return ""
        return f"{self._lock_file} was removed while in use: the worker leaves within seconds"

    def _store_reason(self, what: str, error: StoreError, since: int, facts: StoreFacts) -> Reason:
        if what == "backup":
            return self._reason("backup", f"no backup can be made: {error}", since, facts)
        if error.code == "disk_full":
            free = free_and_total(self._data_dir)[0]
            message = f"no space left on {disk_of(self._data_dir)}: {free} bytes are free"
            return self._reason("disk_full", message, since, facts)
        return self._reason(error.code, str(error), since, facts)

    def _reason(self, code: str, message: str, since: int, facts: StoreFacts) -> Reason:
        action = ""
        if code == "store_corrupt":
            action = restore_command(self._data_dir, Path(facts.backup) if facts.backup else None, since)
        return reason(code, message, since, action or KINDS[code].action.replace("<data dir>", str(self._data_dir)))


def disk_of(data_dir: Path) -> str:
    """The disk in a person's words, with the path that lies on it."""
    mount = mount_of(data_dir, known_mounts())
    return f"{mount.place} ({mount.device}), which holds {data_dir}" if mount else f"the disk that holds {data_dir}"


def free_and_total(folder: Path) -> tuple[int, int]:
    """Free and total bytes; zeros when the folder is away."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return 0, 0
    return usage.free, usage.total


def _network(facts: StoreFacts) -> str:
    if not facts.network_mount:
        return ""
    return f"{facts.path} is on a network file system, {facts.network_mount}: it is used without shared memory"


def _slow_write(facts: StoreFacts) -> str:
    if facts.writer is None or time.monotonic() - facts.writer.since < SLOW_WRITE_SECONDS:
        return ""
    return f"a write has not come to an end for more than {SLOW_WRITE_SECONDS:.0f} s, and others wait for it"


def _large_wal(facts: StoreFacts) -> str:
    if facts.wal_bytes <= LARGE_WAL_BYTES:
        return ""
    return (
        f"{facts.path}-wal has grown to {facts.wal_bytes // MIB} MiB because a program keeps reading an old state of "
        "the database; it shrinks when that one leaves"
    )
