"""`conversations/` and `records/`: one file of JSON lines for each local day, kept equal to the store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import TypeVar

from memory_tencentdb_worker.models import Atom, Layer, Message, Page
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.projection_files import (
    append_file,
    content_hash,
    read_bytes,
    remove_file,
    sync_lines,
    write_file,
)
from memory_tencentdb_worker.store.projection_formats import atom_row, message_row
from memory_tencentdb_worker.text.times import LATEST_MS, date_local, day_start, next_day_start, parse_instant

RECENT_DAYS = 3
"""How many days before the newest row a start checks: older files were complete when an earlier process ended."""

Row = TypeVar("Row")

_DAY_MS = 86_400_000
_OVERLAP_MS = 600_000
"""A clock that is set back by less than this does not hide new rows."""

_DAY_FILE = re.compile(r"\d{4}-\d\d-\d\d\.jsonl", re.ASCII)


class MessageLines:
    """Appends new messages to their day. Checks recent days once, and every day when rows seem to be missing."""

    def __init__(self, store: Store, scope: str, directory: Path, zone: tzinfo) -> None:
        self._store, self._scope, self._zone = store, scope, zone
        self._directory = directory / "conversations"
        self._sizes: dict[str, int] = {}
        self._last_seq = 0
        self._watermark = 0

    def update(self, changes: int | None) -> None:
        """`changes` says how many transactions brought rows since the last call; None: this is the first call."""
        if changes is None:
            self._start()
            return
        fresh = self._read_since(self._watermark - _OVERLAP_MS)
        if len({(message.turn_id, message.recorded_at) for message in fresh}) < changes:
            self.rebuild(force=False)  # the clock was set back, or rows were taken away
            return
        for day, rows in _by_day(fresh, self._recorded_day).items():
            self._append(day, _encode(map(message_row, rows)))
        self._remember(fresh)

    def rebuild(self, *, force: bool) -> int:
        """Makes every day's file equal to the store. `force` writes also those that are. Returns how many there are."""
        rows = self._store.messages_between(self._scope, 0, LATEST_MS)
        return self._sync(rows, force=force, whole=True)

    def _start(self) -> None:
        newest = self._store.list_rows(Layer.L0, Page(limit=1), scope=self._scope).rows
        since = max((row.recorded_at for row in newest if isinstance(row, Message)), default=0)
        since = day_start(since - RECENT_DAYS * _DAY_MS, self._zone) if _has_days(self._directory) else 0
        self._sync(self._store.messages_between(self._scope, max(0, since), LATEST_MS), force=False, whole=since <= 0)

    def _sync(self, rows: Sequence[Message], *, force: bool, whole: bool) -> int:
        days = _by_day(rows, self._recorded_day)
        for day, of_day in days.items():
            data = _encode(map(message_row, of_day))
            _put(self._path(day), data, force=force)
            self._sizes[day] = len(data)
        if whole:
            _drop_days(self._directory, days)
        self._remember(rows)
        return len(days)

    def _read_since(self, since: int) -> list[Message]:
        rows = self._store.messages_between(self._scope, max(0, since), LATEST_MS)
        return [message for message in rows if message.seq > self._last_seq]

    def _remember(self, rows: Iterable[Message]) -> None:
        for message in rows:
            self._last_seq = max(self._last_seq, message.seq)
            self._watermark = max(self._watermark, message.recorded_at)

    def _append(self, day: str, data: bytes) -> None:
        """One write when the file is as we left it; otherwise the day is made anew from the store."""
        path = self._path(day)
        size = path.stat().st_size if path.exists() else 0
        if size == self._sizes.get(day, 0):
            append_file(path, data)
            self._sizes[day] = size + len(data)
        else:
            self._sync_day(day)

    def _sync_day(self, day: str) -> None:
        start = parse_instant(day, self._zone)
        rows = self._store.messages_between(self._scope, start, next_day_start(start, self._zone))
        self._sync(rows, force=False, whole=False)

    def _recorded_day(self, message: Message) -> str:
        return date_local(message.recorded_at, self._zone)

    def _path(self, day: str) -> Path:
        return self._directory / f"{day}.jsonl"


class AtomLines:
    """Keeps every day's atoms, superseded ones too. An old line changes when its atom is superseded or confirmed."""

    def __init__(self, store: Store, scope: str, directory: Path, zone: tzinfo) -> None:
        self._store, self._scope, self._zone = store, scope, zone
        self._directory = directory / "records"
        self._written: dict[str, str] = {}

    def update(self) -> None:
        self._sync(force=False)

    def rebuild(self) -> int:
        return self._sync(force=True)

    def _sync(self, *, force: bool) -> int:
        atoms = self._store.atoms_between(self._scope, 0, LATEST_MS)
        days = _by_day(atoms, self._recorded_day)
        for day, of_day in days.items():
            data = _encode(map(atom_row, of_day))
            path, digest = self._directory / f"{day}.jsonl", content_hash(data)
            if force or self._written.get(day) != digest or not path.exists():
                _put(path, data, force=force)
                self._written[day] = digest
        _drop_days(self._directory, days)
        return len(days)

    def _recorded_day(self, atom: Atom) -> str:
        return date_local(atom.recorded_from, self._zone)


def _by_day(rows: Iterable[Row], day_of: Callable[[Row], str]) -> dict[str, list[Row]]:
    days: dict[str, list[Row]] = {}
    for row in rows:
        days.setdefault(day_of(row), []).append(row)
    return days


def _encode(lines: Iterable[str]) -> bytes:
    return "".join(lines).encode("utf-8", "replace")


def _put(path: Path, data: bytes, *, force: bool) -> None:
    if force and read_bytes(path) != data:
        write_file(path, data)
    else:
        sync_lines(path, data)


def _has_days(directory: Path) -> bool:
    return directory.is_dir() and any(_DAY_FILE.fullmatch(path.name) for path in directory.iterdir())


def _drop_days(directory: Path, known: Iterable[str]) -> None:
    """Removes the files of days of which the store holds nothing (any more)."""
    if not directory.is_dir():
        return
    names = {f"{day}.jsonl" for day in known}
    for path in list(directory.iterdir()):
        if _DAY_FILE.fullmatch(path.name) and path.name not in names:
            remove_file(path)
