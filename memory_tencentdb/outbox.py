"""Turns on disk while the worker is away: appended and fsynced before the host goes on, replayed in order later.

`<home>/outbox/` holds one append-only JSONL segment per provider instance, named by its creation time so that sorting
by name is sorting by age. A line is `{"id", "route", "at", "body"}`. What has been delivered of a segment is in
`<segment>.done` as `<bytes> <lines>`; a segment delivered to its end is deleted. A line that the worker refuses is kept
in `refused.jsonl` with the reason. Any process may replay; the ids in the bodies make a replay harmless.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from . import faults
from .client import encode
from .errors import OutboxFull, RequestRefused, WorkerTrouble
from .locks import LockFile, lock
from .paths import private_dir
from .reserve import Reserve

logger = logging.getLogger(__name__)

MAX_TURNS = 10_000
MAX_BYTES = 64 * 1024 * 1024
WARN_FRACTION = 0.75
REFUSED = "refused.jsonl"
SERVER_ERROR = 500
MAX_SERVER_ERRORS = 5
"""A line that alone makes the worker fail this often is set aside, so that those behind it get through."""

NOT_ACCEPTED = frozenset({401, 403, 429})
"""Refusals of the caller, not of the line: the replay stops and the line stays."""

DISK_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})

Send = Callable[[str, dict[str, Any]], None]


class _Fill(NamedTuple):
    turns: int
    size_bytes: int


class Outbox:
    """`replay` may run in one thread while others append; two processes exclude each other by kernel locks.

    `nonce` and `created_ms` name the segment of one that appends.
    """

    def __init__(self, directory: Path, *, nonce: str = "reader", created_ms: int = 0) -> None:
        self._directory = directory
        self._segment = directory / f"{created_ms:013d}-{os.getpid()}-{nonce}.jsonl"
        self._max_turns = _limit("MEMORY_TENCENTDB_OUTBOX_MAX_TURNS", MAX_TURNS)
        self._max_bytes = _limit("MEMORY_TENCENTDB_OUTBOX_MAX_BYTES", MAX_BYTES)
        self._line_counts: dict[str, tuple[int, int]] = {}
        self._server_errors: dict[str, int] = {}
        self._warned = False
        self._reserve = Reserve(directory / ".reserve")

    def append(self, line_id: str, route: str, body: dict[str, Any], now: int) -> None:
        """Durable when it returns. Raises OutboxFull when the line cannot be kept, whatever the reason."""
        data = _encode_line({"id": line_id, "route": route, "at": now, "body": body})
        try:
            try:
                self._write(data)
            except OSError as error:
                if error.errno not in DISK_FULL or not self._reserve.give_up():
                    raise
                self._write(data)
        except OSError as error:
            raise OutboxFull(f"the outbox {self._directory} cannot be written: {error}") from error

    def hold_reserve(self) -> None:
        """In good times: keeps some space for the day on which the disk is full. Raises OSError."""
        private_dir(self._directory)
        self._reserve.hold()

    def pending(self) -> int:
        """Lines that wait for delivery, those of other processes included."""
        return self._fill().turns

    def oldest_at(self) -> int | None:
        """Since when (epoch ms) the line that is to be delivered next has been waiting; None when none waits."""
        for path in self._segments():
            for raw in _read_lines(path, _read_done(path).size_bytes):
                return _line_time(raw)
        return None

    def replay(self, send: Send, go_on: Callable[[], bool]) -> int:
        """Delivers what waits, oldest first; returns how many lines were delivered or set aside.

        Stops at the first failure of the worker, which `send` raises and this passes on, or when `go_on` says no.
        Returns 0 at once while another process replays.
        """
        if not self._segments():
            return 0
        guard = LockFile(self._directory / ".replay.lock")
        if not guard.acquire():
            return 0
        with guard:
            self._drop_litter()
            return sum(self._replay_segment(path, send, go_on) for path in self._segments())

    def set_aside(self, line_id: str, route: str, body: dict[str, Any], reason: str) -> None:
        """Keeps what the worker has refused at once, without ever having waited here."""
        self.refuse(json.dumps({"id": line_id, "route": route, "body": body}), reason)

    def refuse(self, line: str, reason: str) -> None:
        """Sets a line aside that will never be accepted; it stays readable for a person."""
        logger.warning(
            "memory_tencentdb: a turn was refused and set aside in %s: %s", self._directory / REFUSED, reason
        )
        private_dir(self._directory)
        data = _encode_line({"reason": reason, "line": line})
        with _locked(self._directory / REFUSED, os.O_RDWR | os.O_CREAT) as descriptor:
            _append(descriptor, data)

    def blank(self, is_gone: Callable[[bytes], bool]) -> int:
        """Writes blanks over the lines that are to be forgotten, in place, so that what was delivered stays counted;
        a blank line is nothing to deliver. Returns how many. Raises OSError."""
        refused = self._directory / REFUSED
        return sum(_blank_lines(path, is_gone) for path in [*self._segments(), refused] if path.exists())

    def _write(self, data: bytes) -> None:
        faults.reach("outbox.before_append")
        private_dir(self._directory)
        self._check_room(len(data))
        with _locked(self._segment, os.O_RDWR | os.O_CREAT) as descriptor:
            is_new = _append(descriptor, data)
        if is_new:
            _sync_directory(self._directory)
        faults.reach("outbox.after_append")

    def _replay_segment(self, path: Path, send: Send, go_on: Callable[[], bool]) -> int:
        delivered = 0
        done = _read_done(path)
        while go_on():
            start = done.size_bytes
            for raw in _read_lines(path, start):
                if not go_on():
                    return delivered
                self._deliver(path, done.turns, raw, send)
                faults.reach("outbox.delivered")
                done = _Fill(done.turns + 1, done.size_bytes + len(raw))
                _write_done(path, done)
                delivered += 1
            if done.size_bytes == start and self._close_segment(path, done):
                return delivered
        return delivered

    def _deliver(self, path: Path, number: int, raw: bytes, send: Send) -> None:
        text = raw.decode("utf-8", "replace").rstrip("\n")
        try:
            line = json.loads(text)
            route, body = str(line["route"]), dict(line["body"])
        except (ValueError, KeyError, TypeError):
            if text.strip():
                self.refuse(text, "the line is torn or is not JSON")
            return
        try:
            send(route, body)
        except RequestRefused as error:
            if error.status in NOT_ACCEPTED:
                raise
            self.refuse(text, str(error))
        except WorkerTrouble as error:
            key = f"{path.name}:{number}"
            self._server_errors[key] = self._server_errors.get(key, 0) + 1
            if error.status != SERVER_ERROR or self._server_errors[key] < MAX_SERVER_ERRORS:
                raise
            self.refuse(text, f"{error} ({MAX_SERVER_ERRORS} times)")

    def _close_segment(self, path: Path, done: _Fill) -> bool:
        """Deletes a delivered segment, unless something was appended meanwhile. A rest without a line end was torn by a
        crash: the lock is free, so nobody is writing it."""
        try:
            with _locked(path, os.O_RDWR) as descriptor:
                size = os.fstat(descriptor).st_size
                if size > done.size_bytes:
                    os.lseek(descriptor, done.size_bytes, os.SEEK_SET)
                    rest = os.read(descriptor, size - done.size_bytes)
                    if rest.endswith(b"\n"):
                        return False
                    self.refuse(rest.decode("utf-8", "replace"), "the line was torn by a crash")
                faults.reach("outbox.emptied")
                # The mark goes first: left behind alone, it would hide the lines of a new segment of this name.
                _done_path(path).unlink(missing_ok=True)
                faults.reach("outbox.unmarked")
                path.unlink()
        except FileNotFoundError:
            pass
        self._line_counts.pop(path.name, None)
        return True

    def _drop_litter(self) -> None:
        """Marks that a killed process had not finished. Only the holder of the replay lock writes any."""
        for path in self._directory.glob("*.tmp"):
            path.unlink(missing_ok=True)

    def _check_room(self, size_bytes: int) -> None:
        fill = self._fill()
        if fill.turns + 1 > self._max_turns or fill.size_bytes + size_bytes > self._max_bytes:
            raise OutboxFull(f"the outbox is full: {fill.turns} turns, {fill.size_bytes} bytes in {self._directory}")
        share = max((fill.turns + 1) / self._max_turns, (fill.size_bytes + size_bytes) / self._max_bytes)
        if share >= WARN_FRACTION and not self._warned:
            logger.warning("memory_tencentdb: the outbox %s is %d %% full", self._directory, int(share * 100))
        self._warned = share >= WARN_FRACTION

    def _fill(self) -> _Fill:
        turns = size_bytes = 0
        for path in self._segments():
            done = _read_done(path)
            size, lines = self._count_lines(path)
            turns += max(lines - done.turns, 0)
            size_bytes += max(size - done.size_bytes, 0)
        return _Fill(turns, size_bytes)

    def _count_lines(self, path: Path) -> tuple[int, int]:
        """Size and lines of a segment; only what was appended since the last look is read."""
        size, lines = self._line_counts.get(path.name, (0, 0))
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < size:  # deleted by another process and begun again by its owner
                    size, lines = 0, 0
                file.seek(size)
                grown = file.read()
        except FileNotFoundError:
            return 0, 0
        counted = (size + len(grown), lines + grown.count(b"\n"))
        self._line_counts[path.name] = counted
        return counted

    def _segments(self) -> list[Path]:
        try:
            names = os.listdir(self._directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [self._directory / name for name in sorted(names) if name.endswith(".jsonl") and name != REFUSED]


@contextmanager
def _locked(path: Path, flags: int) -> Iterator[int]:
    """Opens and locks a file; when it was deleted between the two, starts again with the new one."""
    while True:
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            lock(descriptor)
            if os.fstat(descriptor).st_nlink:
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _blank_lines(path: Path, is_gone: Callable[[bytes], bool]) -> int:
    blanked = at = 0
    with _locked(path, os.O_RDWR | os.O_CREAT) as descriptor, os.fdopen(os.dup(descriptor), "r+b") as file:
        for raw in file.read().splitlines(keepends=True):
            text = raw.rstrip(b"\n")
            if text.strip() and is_gone(text):
                file.seek(at)
                file.write(b" " * len(text))
                blanked += 1
            at += len(raw)
        file.flush()
        os.fsync(file.fileno())
    return blanked


def _append(descriptor: int, data: bytes) -> bool:
    """Writes and fsyncs one line at the end; a failed write is taken back, an old torn one is closed first.

    Returns whether the file was empty before."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if size:
        os.lseek(descriptor, size - 1, os.SEEK_SET)
        if os.read(descriptor, 1) != b"\n":
            data = b"\n" + data
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        faults.reach("outbox.before_sync")
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise
    return size == 0


def _read_lines(path: Path, offset: int) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return
                yield raw
    except FileNotFoundError:
        return


def _line_time(raw: bytes) -> int | None:
    try:
        return int(json.loads(raw)["at"])
    except (ValueError, KeyError, TypeError):
        return None  # the next replay sets such a line aside


def _done_path(segment: Path) -> Path:
    return segment.with_suffix(".done")


def _read_done(segment: Path) -> _Fill:
    """What is delivered of a segment. Unreadable means nothing: a second delivery does no harm."""
    try:
        size_bytes, turns = _done_path(segment).read_text(encoding="ascii").split()
        return _Fill(int(turns), int(size_bytes))
    except (OSError, ValueError):
        return _Fill(0, 0)


def _write_done(segment: Path, done: _Fill) -> None:
    temporary = segment.with_suffix(f".{os.getpid()}.{time.monotonic_ns()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, f"{done.size_bytes} {done.turns}\n".encode("ascii"))
    finally:
        os.close(descriptor)
    temporary.replace(_done_path(segment))


def _sync_directory(directory: Path) -> None:
    """Makes the name of a new segment durable; Windows has no such call."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _encode_line(line: dict[str, Any]) -> bytes:
    return encode(line) + b"\n"


def _limit(variable: str, default: int) -> int:
    try:
        return max(int(os.environ.get(variable, "")), 1)
    except ValueError:
        return default
