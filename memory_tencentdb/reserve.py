"""A file that only takes up space. It is given up when the disk is full, so that turns still find room in the outbox on
a disk that takes nothing else any more."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

logger = logging.getLogger(__name__)

SIZE_BYTES = 1024 * 1024
"""Some thousand turns: days of talk."""

MADE_ABOVE_BYTES = 10 * SIZE_BYTES


class Reserve:
    """Shared by all who use the same path; every method may be called by any of them at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def hold(self) -> None:
        """Makes the file when it is not there and the disk has room to spare. Raises OSError."""
        if self._path.exists() or shutil.disk_usage(self._path.parent).free < MADE_ABOVE_BYTES:
            return
        unfinished = self._path.with_suffix(f".{os.getpid()}.tmp")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, os.urandom(SIZE_BYTES))  # a compressing file system keeps no room for zeros
        finally:
            os.close(descriptor)
        unfinished.replace(self._path)

    def give_up(self) -> bool:
        """Frees the space; False when there is none to free."""
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        logger.warning("memory_tencentdb: the disk is full; the reserve %s is given up for waiting turns", self._path)
        return True
