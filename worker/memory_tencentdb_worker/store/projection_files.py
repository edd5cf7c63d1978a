"""Writing projected files so that a reader sees the old text or the new one, never half of either."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from memory_tencentdb import faults
from memory_tencentdb_worker.errors import StoreError, StoreFull

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT}) if hasattr(errno, "EDQUOT") else frozenset({errno.ENOSPC})

_PIECE_BYTES = 1 << 20


@contextlib.contextmanager
def disk_errors(what: Path) -> Iterator[None]:
    """Turns an OSError into StoreFull or StoreError that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFull(f"no space left for {what}: it is written when there is some again") from error
        raise StoreError(f"cannot write {what}: {error.strerror or error}", code="files") from error


def content_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_dir(path: Path) -> Path:
    """Makes a directory and its missing parents, each 0700."""
    with disk_errors(path):
        for parent in [*reversed(path.parents), path]:
            if not parent.exists():
                parent.mkdir(mode=0o700, exist_ok=True)
    return path


def read_bytes(path: Path) -> bytes | None:
    """None when there is no such file. Raises StoreError when it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}", code="files") from error


def write_file(path: Path, data: bytes) -> None:
    """Replaces a file whole: unique hidden file beside it, fsync, rename, fsync of the directory (trap B33)."""
    with disk_errors(path):
        make_dir(path.parent)
        temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
        try:
            _write_synced(temporary, data)
            _rename(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def copy_start(source: Path, target: Path, size: int) -> None:
    """Makes a new file out of the first bytes of one that need not be there."""
    with disk_errors(target):
        make_dir(target.parent)
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(handle, "wb") as copy:
            while size > 0:
                with source.open("rb") as file:
                    file.seek(copy.tell())
                    piece = file.read(min(size, _PIECE_BYTES))
                if not piece:
                    raise OSError(errno.EIO, "it became shorter while it was read")
                copy.write(piece)
                size -= len(piece)


def put_in_place(temporary: Path, path: Path) -> None:
    """The end of `write_file` for a file that was written in pieces."""
    with disk_errors(path):
        handle = os.open(temporary, os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        _rename(temporary, path)


def _rename(temporary: Path, path: Path) -> None:
    """Puts a file that is on the disk under its name, for good."""
    faults.reach("file.written")
    temporary.replace(path)
    faults.reach("file.renamed")
    sync_dir(path.parent)


def append_file(path: Path, data: bytes) -> None:
    """Adds complete lines by one write. Not synced: what a power cut takes, the next start puts back."""
    with disk_errors(path):
        make_dir(path.parent)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(path, flags, 0o600)
        faults.reach("lines.before_append")
        try:
            written = os.write(handle, data)
        finally:
            os.close(handle)
        faults.reach("lines.after_append")
        if written != len(data):
            raise OSError(errno.ENOSPC, "only a part could be written")


def drop_litter(directory: Path) -> None:
    """Removes what `write_file`, `keep_file` and `keep_dir` had begun in it when their process was killed."""
    with disk_errors(directory):
        for path in directory.glob(".*.tmp"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def remove_file(path: Path) -> None:
    with disk_errors(path):
        path.unlink(missing_ok=True)
        if path.parent.is_dir():
            sync_dir(path.parent)


def sync_dir(path: Path) -> None:
    if sys.platform == "win32":  # a directory cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def keep_file(source: bytes, target: Path, keep: int) -> None:
    """Puts a copy into a backup directory and drops the oldest by name beyond `keep`."""
    write_file(target, source)
    for old in _oldest(target.parent, keep):
        remove_file(old)


def keep_dir(files: dict[str, bytes], target: Path, keep: int) -> None:
    """As `keep_file`, for a directory of files; it appears under its name when it is complete."""
    with disk_errors(target):
        make_dir(target.parent)
        temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
        temporary.mkdir(mode=0o700)
        try:
            for name, data in files.items():
                _write_synced(temporary / name, data)
            shutil.rmtree(target, ignore_errors=True)
            temporary.replace(target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        for old in _oldest(target.parent, keep):
            shutil.rmtree(old)


def _oldest(directory: Path, keep: int) -> list[Path]:
    kept = sorted(path for path in directory.iterdir() if not path.name.startswith("."))
    return kept[: max(0, len(kept) - keep)]


def _write_synced(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(handle)
