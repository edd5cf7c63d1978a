"""SQLite's errors in our own words: which of them mean a full disk, a damaged file, or one that is out of reach."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from memory_tencentdb_worker.errors import InvalidInput, StoreCorrupt, StoreError, StoreFull

FULL_BELOW_BYTES = 64 * 1024
"""An I/O error on a device with less space than this is taken for a full one: only a plain write says so itself, the
shared-memory file, a quota and a sync do not."""

_OUT_OF_REACH = (apsw.ReadOnlyError, apsw.PermissionsError, apsw.CantOpenError)


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Raises StoreFull, StoreCorrupt, StoreError or InvalidInput instead. Text or JSON that cannot be read back was
    written whole, so it is damage as well."""
    try:
        yield
    except apsw.Error as error:
        raise store_error(path, error) from error
    except UnicodeEncodeError as error:
        raise InvalidInput(f"the text is not valid Unicode: {error.reason} at {error.start}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise StoreCorrupt(f"{path} is damaged (a text in it cannot be read: {error})") from error


def store_error(path: Path, error: apsw.Error) -> StoreError:
    out_of_reach = isinstance(error, _OUT_OF_REACH)
    if isinstance(error, apsw.FullError) or ((out_of_reach or isinstance(error, apsw.IOError)) and _is_full(path)):
        return StoreFull(f"no space left for {path}: nothing was written")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return StoreCorrupt(f"{path} is damaged ({error})")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreError(f"{path} is held by another process", code="store_busy")
    if out_of_reach:
        return StoreError(f"{path} cannot be opened for writing ({error})", code="store_readonly")
    if isinstance(error, apsw.IOError):
        return StoreError(f"the disk refuses {path} ({error})", code="store_io")
    return StoreError(f"{path}: {type(error).__name__}: {error}")


def _is_full(path: Path) -> bool:
    try:
        facts = os.statvfs(path.parent)
    except (OSError, AttributeError):  # it cannot be asked: nothing says that it is
        return False
    return facts.f_bavail * facts.f_frsize < FULL_BELOW_BYTES
