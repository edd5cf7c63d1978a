"""`conversations/` and `records/`: one file of JSON lines for each local day, kept equal to the store."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import TypeVar

from memory_tencentdb_worker.models import Layer, Message, Page
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.projection_days import LinesFile
from memory_tencentdb_worker.store.projection_files import (
    append_file,
    read_bytes,
    remove_file,
    write_file,
)
from memory_tencentdb_worker.store.projection_formats import atom_row, message_row
from memory_tencentdb_worker.text.times import date_local, day_start, next_day_start, parse_instant

RECENT_DAYS = 3
"""How many days before the newest row a start checks: older files were complete when an earlier process ended."""

UNFINISHED = ".unfinished"
"""Stands beside the days while all of them are gone through: a killed process may have left out old ones."""

MESSAGES_AT_ONCE = 2_000

ATOMS_AT_ONCE = 200
"""A day is read again at each of its changes: all at once, the largest such moment would stay with the process."""

Row = TypeVar("Row")

_DAY_MS = 86_400_000

_DAY_FILE = re.compile(r"\d{4}-\d\d-\d\d\.jsonl", re.ASCII)


class MessageLines:
    """Appends new messages to their day; what is new stands behind the last one by its `seq`, because a clock may have
    been set back. Checks recent days once, and every day when rows were taken away."""

    def __init__(
        self, store: Store, scope: str, directory: Path, zone: tzinfo, at_once: int = MESSAGES_AT_ONCE
    ) -> None:
        self._store, self._scope, self._zone, self._at_once = store, scope, zone, at_once
        self._directory = directory / "conversations"
        self._sizes: dict[str, int] = {}
        self._last_seq: int | None = None
        self._unfinished = self._directory / UNFINISHED
        self._mark = 0  # of the messages up to there

    def update(self) -> None:
        if self._last_seq is None:
            self._start()
            return
        seen, self._last_seq = self._last_seq, None  # should a write fail, the next call checks what is there
        mark, fresh = self._store.messages_after(self._scope, seen)
        if len({(message.turn_id, message.recorded_at) for message in fresh}) < mark - self._mark:
            self.rebuild()  # there were more changes than turns: rows were taken away
            return
        newest = fresh[-1].seq if fresh else seen
        for day, rows in _by_day(fresh, self._recorded_day).items():
            self._append(day, _encode(map(message_row, rows)), newest)
        self._last_seq, self._mark = newest, mark

    def rebuild(self) -> int:
        """Makes every day's file equal to the store. Returns how many there are."""
        return self._sync_since(0)

    def _start(self) -> None:
        newest = self._store.list_rows(Layer.L0, Page(limit=1), scope=self._scope).rows
        since = max((row.recorded_at for row in newest if isinstance(row, Message)), default=0)
        whole = self._unfinished.exists() or not _has_days(self._directory)
        self._sync_since(0 if whole else day_start(since - RECENT_DAYS * _DAY_MS, self._zone))

    def _sync_since(self, since: int) -> int:
        mark, seqs = self._store.message_seqs(self._scope, max(0, since))
        if since > 0:
            days = self._write(seqs)
        else:
            write_file(self._unfinished, b"")
            days = self._write(seqs)
            _drop_days(self._directory, days)
            remove_file(self._unfinished)
        self._last_seq, self._mark = (seqs[-1] if seqs else 0), mark
        return len(days)

    def _write(self, seqs: Sequence[int]) -> Collection[str]:
        """The days of these messages; each file holds nothing else afterwards."""
        files: dict[str, LinesFile] = {}
        try:
            for start in range(0, len(seqs), self._at_once):
                rows = self._store.messages_by_seq(seqs[start : start + self._at_once])
                for day, of_day in _by_day(rows, self._recorded_day).items():
                    files.setdefault(day, LinesFile(self._path(day))).write(_encode(map(message_row, of_day)))
            for day, file in files.items():
                self._sizes[day] = file.close()
        finally:
            for file in files.values():
                file.discard()
        return files

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
        _, seqs = self._store.message_seqs(self._scope, start, next_day_start(start, self._zone))
        self._write([seq for seq in seqs if seq <= newest])

    def _recorded_day(self, message: Message) -> str:
        return date_local(message.recorded_at, self._zone)

    def _path(self, day: str) -> Path:
        return self._directory / f"{day}.jsonl"


class AtomLines:
    """Keeps every day's atoms, superseded ones too. An old line changes when its atom is superseded or confirmed, so a
    day is read again when anything of it differs."""

    def __init__(self, store: Store, scope: str, directory: Path, zone: tzinfo) -> None:
        self._store, self._scope, self._zone = store, scope, zone
        self._directory = directory / "records"
        self._written: dict[str, int] = {}

    def update(self) -> None:
        self._sync(force=False)

    def rebuild(self) -> int:
        return self._sync(force=True)

    def _sync(self, *, force: bool) -> int:
        """A change between the marks and the rows is written now and found to differ the next time."""
        days = _by_day(self._store.atom_marks(self._scope), lambda row: date_local(row[0], self._zone))
        for day, marks in days.items():
            path, mark = self._directory / f"{day}.jsonl", hash(tuple(marks))
            if force or self._written.get(day) != mark or not path.exists():
                self._write_day(LinesFile(path), parse_instant(day, self._zone))
                self._written[day] = mark
        _drop_days(self._directory, days)
        return len(days)

    def _write_day(self, file: LinesFile, start: int) -> None:
        end, after = next_day_start(start, self._zone), 0
        try:
            while True:
                atoms = self._store.atoms_between(self._scope, start, end, after_seq=after, limit=ATOMS_AT_ONCE)
                file.write(_encode(map(atom_row, atoms)))
                if len(atoms) < ATOMS_AT_ONCE:
                    break
                after = atoms[-1].seq
            file.close()
        finally:
            file.discard()


def line_differences(store: Store, scope: str, directory: Path, zone: tzinfo) -> list[tuple[str, str]]:
    """Files of lines that are not what the store says, by their path in the scope's directory, each with what it is:
    missing, stale or foreign. One day at a time."""
    present = _day_names(directory)
    found = []
    for day in _local_days(store.recorded_days(scope), zone):
        for file, data in _day_files(store, scope, day, zone).items():
            held = read_bytes(directory / file) if file in present else None
            present.discard(file)
            if held != data:
                found.append((file, "missing" if held is None else "stale"))
    return found + [(file, "foreign") for file in sorted(present)]


def _local_days(recorded: Iterable[int], zone: tzinfo) -> list[str]:
    """A UTC day touches two local ones."""
    return sorted({date_local(instant, zone) for start in recorded for instant in (start, start + _DAY_MS - 1)})


def _day_files(store: Store, scope: str, day: str, zone: tzinfo) -> dict[str, bytes]:
    start = parse_instant(day, zone)
    span = (start, next_day_start(start, zone))
    texts = {
        f"conversations/{day}.jsonl": _encode(map(message_row, store.messages_between(scope, *span))),
        f"records/{day}.jsonl": _encode(map(atom_row, store.atoms_between(scope, *span))),
    }
    return {file: data for file, data in texts.items() if data}


def _day_names(directory: Path) -> set[str]:
    folders = [directory / name for name in ("conversations", "records")]
    found = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return {f"{path.parent.name}/{path.name}" for path in found if _DAY_FILE.fullmatch(path.name)}


def _by_day(rows: Iterable[Row], day_of: Callable[[Row], str]) -> dict[str, list[Row]]:
    days: dict[str, list[Row]] = {}
    for row in rows:
        days.setdefault(day_of(row), []).append(row)
    return days


def _encode(lines: Iterable[str]) -> bytes:
    return "".join(lines).encode("utf-8", "replace")


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
