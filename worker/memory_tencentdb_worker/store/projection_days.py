"""One file of lines that is given its text in pieces, so that a day of any size is never in memory as a whole."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from memory_tencentdb_worker.store.projection_files import append_file, copy_start, disk_errors, put_in_place


class LinesFile:
    """Makes a file hold the text of all `write`s. As long as the file is the same, nothing is written; what is missing
    at its end is appended; from the first other byte on, a copy is made that `close` puts in its place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        self._copy: Path | None = None

    def write(self, data: bytes) -> None:
        if self._copy is None:
            there = self._read(len(data))
            if there != data and not (data.startswith(there) and self._held() == self._size + len(there)):
                self._begin_copy()
            elif there != data:
                append_file(self._path, data[len(there) :])
        if self._copy is not None:
            append_file(self._copy, data)
        self._size += len(data)

    def close(self) -> int:
        """The size that the file has now."""
        if self._copy is None and self._held() > self._size:
            self._begin_copy()
        if self._copy is not None:
            put_in_place(self._copy, self._path)
            self._copy = None
        return self._size

    def discard(self) -> None:
        """After a failure: the file stays as it is."""
        if self._copy is not None:
            self._copy.unlink(missing_ok=True)

    def _begin_copy(self) -> None:
        self._copy = self._path.parent / f".{secrets.token_hex(8)}.tmp"
        copy_start(self._path, self._copy, self._size)

    def _read(self, length: int) -> bytes:
        with disk_errors(self._path):
            try:
                with self._path.open("rb") as file:
                    file.seek(self._size)
                    return file.read(length)
            except FileNotFoundError:
                return b""

    def _held(self) -> int:
        with disk_errors(self._path):
            try:
                return os.stat(self._path).st_size
            except FileNotFoundError:
                return 0
