"""What can be said about a store whose worker is away: why it would not start, and how to bring it back."""

from __future__ import annotations

import os
from pathlib import Path

from memory_tencentdb.paths import user_id
from memory_tencentdb_worker.errors import StoreCorrupt, StoreError
from memory_tencentdb_worker.service.reasons import Reason, reason
from memory_tencentdb_worker.service.store_watch import PROBED_BELOW_BYTES, disk_of, free_and_total
from memory_tencentdb_worker.store.backups import newest_good_backup, restore_command
from memory_tencentdb_worker.store.migrations import inspect_closed


def reasons_from_outside(data_dir: Path, now: int) -> list[Reason]:
    """Looks at the directory, the disk and the database, and changes nothing."""
    if not data_dir.exists():
        return []
    problem = _directory_problem(data_dir)
    if problem:
        return [reason("data_dir", problem, now)]
    found: list[Reason] = []
    free, _ = free_and_total(data_dir)
    if free < PROBED_BELOW_BYTES:
        found.append(reason("disk_full", f"no space left on {disk_of(data_dir)}: {free} bytes are free", now))
    try:
        inspect_closed(data_dir)
    except StoreCorrupt as error:
        found.append(damage_reason(error, data_dir, now))
    except StoreError as error:
        found.append(reason(error.code, str(error), now))
    return found


def damage_reason(error: StoreCorrupt, data_dir: Path, now: int) -> Reason:
    """The damage, the newest backup that was found whole, and the command that puts it in place."""
    backup = newest_good_backup(data_dir)
    offer = f"the newest good backup is {backup}" if backup else "there is no good backup"
    message = f"{error}: it is left as it is; {offer}"
    return reason("store_corrupt", message, now, restore_command(data_dir, backup, now))


def _directory_problem(data_dir: Path) -> str:
    try:
        owner = data_dir.stat().st_uid
    except OSError as error:
        return f"{data_dir} cannot be reached: {error.strerror}"
    if os.name == "posix" and owner != user_id():
        return f"{data_dir} belongs to user {owner}, not to {user_id()}"
    if not os.access(data_dir, os.W_OK | os.X_OK):
        return f"{data_dir} cannot be written by user {user_id()}"
    return ""
