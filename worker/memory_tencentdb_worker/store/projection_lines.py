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

_DAY_FILE = re.compile(r"\d{4}-\d\d-\d\d\.jsonl", re.ASCII)


class MessageLines:
    """Appends new messages to their day; what is new stands behind the last one by its `seq`, because a clock may have
    been set back. Checks recent days once, and every day when rows were taken away."""

    def __init__(self, store: Store, scope: str, directory: Path, zone: tzinfo) -> None:
        self._store, self._scope, self._zone = store, scope, zone
        self._directory = directory / "conversations"
        self._sizes: dict[str, int] = {}
        self._last_seq: int | None = None
        self._mark = 0  # of the messages up to there

    def update(self) -> None:
        if self._last_seq is None:
            self._start()
            return
        seen, self._last_seq = self._last_seq, None  # should a write fail, the next call checks what is there
        mark, fresh = self._store.messages_after(self._scope, seen)
        if len({(message.turn_id, message.recorded_at) for message in fresh}) < mark - self._mark:
            self.rebuild(force=False)  # there were more changes than turns: rows were taken away
            return
        newest = fresh[-1].seq if fresh else seen
        for day, rows in _by_day(fresh, self._recorded_day).items():
            self._append(day, _encode(map(message_row, rows)), newest)
        self._last_seq, self._mark = newest, mark

    def rebuild(self, *, force: bool) -> int:
        """Makes every day's file equal to the store. `force` writes also those that are. Returns how many there are."""
        return self._sync_since(0, force=force)

    def _start(self) -> None:
        newest = self._store.list_rows(Layer.L0, Page(limit=1), scope=self._scope).rows
        since = max((row.recorded_at for row in newest if isinstance(row, Message)), default=0)
        since = day_start(since - RECENT_DAYS * _DAY_MS, self._zone) if _has_days(self._directory) else 0
        self._sync_since(since, force=False)

    def _sync_since(self, since: int, *, force: bool) -> int:
        mark, rows = self._store.messages_after(self._scope, 0, max(0, since))
        days = self._sync(rows, force=force, whole=since <= 0)
        self._last_seq, self._mark = (rows[-1].seq if rows else 0), mark
        return days

    def _sync(self, rows: Sequence[Message], *, force: bool, whole: bool) -> int:
        days = _by_day(rows, self._recorded_day)
        for day, of_day in days.items():
            data = _encode(map(message_row, of_day))
            _put(self._path(day), data, force=force)
            self._sizes[day] = len(data)
        if whole:
            _drop_days(self._directory, days)
        return len(days)

    def _append(self, day: str, data: bytes, newest: int) -> None:
        """One write when the file is as we left it; otherwise the day is made anew from the store."""
        path = self._path(day)
        size = path.stat().st_size if path.exists() else 0
        if size == self._sizes.get(day, 0):
            append_file(path, data)
            self._sizes[day] = size + len(data)
        else:
            self._sync_day(day, newest)

    def _sync_day(self, day: str, newest: int) -> None:
        """What came after `newest` meanwhile belongs to the next round."""
        start = parse_instant(day, self._zone)
        rows = self._store.messages_between(self._scope, start, next_day_start(start, self._zone))
        self._sync([row for row in rows if row.seq <= newest], force=False, whole=False)

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


def day_files(store: Store, scope: str, zone: tzinfo) -> dict[str, bytes]:
    """What the files of lines shall hold, by their path in the scope's directory."""
    _, messages = store.messages_after(scope, 0)
    spoken = _by_day(messages, lambda row: date_local(row.recorded_at, zone))
    atoms = store.atoms_between(scope, 0, LATEST_MS)
    learnt = _by_day(atoms, lambda row: date_local(row.recorded_from, zone))
    files = {f"conversations/{day}.jsonl": _encode(map(message_row, rows)) for day, rows in spoken.items()}
    return files | {f"records/{day}.jsonl": _encode(map(atom_row, rows)) for day, rows in learnt.items()}


def day_names(directory: Path) -> list[str]:
    """The files of lines that are there, by their path in the scope's directory."""
    folders = [directory / name for name in ("conversations", "records")]
    found = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return sorted(f"{path.parent.name}/{path.name}" for path in found if _DAY_FILE.fullmatch(path.name))


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
