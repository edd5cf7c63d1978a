"""Files beside the database that may hold what is forgotten: copies of it, readable files set aside, logs."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

import apsw

from memory_tencentdb_worker.byte_scan import Scan, forms, scan_in_child
from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.store.backups import FOLDER
from memory_tencentdb_worker.store.connection import first_value
from memory_tencentdb_worker.store.sqlite_errors import translated_errors

SHORTEST_PIECE = 12
"""A shorter sentence says too little to be looked for on its own, and so does a whole text of fewer bytes: "ok" stands
in other words too, and would cost a waiting turn that holds one."""

_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*|\n")


def telling_pieces(texts: Iterable[str], phrase: str) -> list[str]:
    """What is looked for: the phrase, each telling text and sentence, since a log or a model's answer may hold one."""
    pieces = {phrase} if phrase else set()
    for text in texts:
        if len(text.encode("utf-8", "replace")) >= SHORTEST_PIECE:
            pieces.add(text)
        pieces.update(part.strip() for part in _SENTENCE.split(text) if len(part.strip()) >= SHORTEST_PIECE)
    return sorted(piece for piece in pieces if piece.strip())


def drop_copies(data_dir: Path, ids: Collection[str], pieces: Collection[str]) -> list[str]:
    """Deletes every copy that holds it, database or readable file; returns their names. Raises StoreError."""
    folders = [*data_dir.rglob(FOLDER), *data_dir.glob("damaged-*"), *data_dir.glob("memory.db-wal.damaged-*")]
    try:
        held = set(scan_in_child(folders, pieces).hits) if folders else set()
        copies = [path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*"))]
        gone = [path for path in copies if path.is_file() and _holds(path, ids, held)]
        for path in gone:
            path.unlink(missing_ok=True)
        for folder in sorted((path for path in copies if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):  # only what is empty now goes
                folder.rmdir()
    except OSError as error:
        raise StoreError(f"copies of the memory could not be looked through: {error}", code="files") from error
    return [str(path.relative_to(data_dir)) for path in gone]


def blank_logs(logs: Path, pieces: Collection[str]) -> int:
    """Writes stars over it, in place: a log stays open while the worker runs. Returns how many places."""
    wanted = sorted({form for piece in pieces for form in forms(piece)}, key=len, reverse=True)
    places = 0
    try:
        for path in logs.glob("*.log*") if logs.is_dir() else ():
            data = path.read_bytes()
            found = [(at, form) for form in wanted for at in _places(data, form)]
            with path.open("r+b") as file:
                for at, form in found:
                    file.seek(at)
                    file.write(b"*" * len(form))
                file.flush()
                os.fsync(file.fileno())
            places += len(found)
    except OSError as error:
        raise StoreError(f"the logs in {logs} could not be cleaned: {error.strerror or error}", code="files") from error
    return places


def prove(roots: Collection[Path], pieces: Collection[str]) -> Scan:
    """Raises StoreError when the scan did not come to its end."""
    try:
        return scan_in_child(list(roots), pieces)
    except OSError as error:
        raise StoreError(f"it could not be proved that nothing is left: {error}", code="files") from error


def _holds(path: Path, ids: Collection[str], held: Collection[str]) -> bool:
    if str(path.resolve()) in held:
        return True
    return path.suffix == ".db" and _database_holds(path, ids)


def _database_holds(path: Path, ids: Collection[str]) -> bool:
    """By the ids: a long text lies in pieces in a database. One that cannot be read is taken to hold it."""
    try:
        with translated_errors(path):
            connection = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READONLY)
            try:
                return any(
                    first_value(connection, f"select 1 from {table} where id = ?", (id,))
                    for id in ids
                    for table in ("messages", "atoms")
                )
            finally:
                connection.close()
    except StoreError:
        return True


def _places(data: bytes, form: bytes) -> list[int]:
    found, at = [], data.find(form)
    while at >= 0:
        found.append(at)
        at = data.find(form, at + len(form))
    return found
