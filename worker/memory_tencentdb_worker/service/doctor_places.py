"""What `doctor` looks at beside the database: modes, links, backups, disk, clock and the turns that wait."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from memory_tencentdb.outbox import REFUSED, Outbox
from memory_tencentdb.paths import private_dir
from memory_tencentdb_worker.modes import is_wide, narrow, our_files
from memory_tencentdb_worker.service.doctor_kinds import finding
from memory_tencentdb_worker.service.store_watch import LOW_SPACE_BYTES, LOW_SPACE_SHARE, MIB, disk_of, free_and_total
from memory_tencentdb_worker.store.backups import FOLDER, backups, problem_of

CLOCK_SLACK_MS = 60_000
WAITING_LIMIT_MS = 60_000
"""A worker that runs takes in what waits within seconds."""

DAMAGED = "damaged"


def look_at_places(home: Path, data_dir: Path, now: int, newest_message: int, *, quick: bool) -> list[dict[str, Any]]:
    """`newest_message`: when it was recorded. `quick` reads the newest backup only."""
    ours = our_files(home, data_dir) if os.name == "posix" else []
    found = [("modes_wide", [path for path in ours if is_wide(path)]), ("file_linked", _links(ours, home))]
    kept = backups(data_dir)
    found.append(("backup_bad", [path for path in (kept[:1] if quick else kept) if problem_of(path)]))
    shown = [finding(code, paths) for code, paths in found if paths]
    if not kept:
        shown.append(finding("backup_none", [data_dir / FOLDER]))
    return shown + _disk(data_dir) + _clock(newest_message, now) + _outbox(home, now)


def repair_places(home: Path, data_dir: Path) -> None:
    """Links are taken away, not what they lead to; the files are written again afterwards."""
    for path in _links(our_files(home, data_dir), home):
        path.unlink(missing_ok=True)
    narrow(home, data_dir)
    for path in backups(data_dir):
        if problem_of(path):
            path.replace(private_dir(path.parent / DAMAGED) / path.name)


def _links(ours: list[Path], home: Path) -> list[Path]:
    """A person may well keep configuration, logs or backups on another disk."""
    kept = (FOLDER, "memory.db")
    return [path for path in ours if path.is_symlink() and path.parent != home and path.name not in kept]


def _disk(data_dir: Path) -> list[dict[str, Any]]:
    free, total = free_and_total(data_dir)
    if not total or free >= min(LOW_SPACE_BYTES, total * LOW_SPACE_SHARE):
        return []
    return [finding("disk_low", [disk_of(data_dir)], f"{free // MIB} MiB")]


def _clock(newest: int, now: int) -> list[dict[str, Any]]:
    if newest <= now + CLOCK_SLACK_MS:
        return []
    return [finding("clock_behind", [f"{(newest - now) // 1000} s"])]


def _outbox(home: Path, now: int) -> list[dict[str, Any]]:
    folder = home / "outbox"
    if not folder.is_dir():
        return []
    found = []
    outbox = Outbox(folder)
    since = outbox.oldest_at()
    if since is not None and now - since > WAITING_LIMIT_MS:
        found.append(finding("outbox_waiting", [folder], f"{outbox.pending()}"))
    refused = folder / REFUSED
    if refused.exists() and refused.read_bytes().strip():
        found.append(finding("outbox_refused", [refused]))
    if not (folder / ".reserve").exists():
        found.append(finding("reserve_missing", [folder / ".reserve"]))
    return found
