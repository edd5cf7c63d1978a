"""Narrows what a wider umask, a copy or an older version has left readable for others (trap B93)."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

IN_HOME = ("config.yaml", "config.json", "tdai-gateway.yaml", "tdai-gateway.json", "worker.json", "logs", "outbox")
IN_DATA = ("memory.db*", "conversations", "records", "scene_blocks", "persona.md", ".metadata", ".backup", "users")


def narrow(home: Path, data_dir: Path) -> int:
    """Files 0600, directories 0700; only what is ours by name, and no link is followed. Returns how many were wide."""
    if os.name != "posix":
        return 0
    count = sum(_narrow_one(path) for path in our_files(home, data_dir))
    if count:
        logger.warning("%d files and directories were open to others and are not any more", count)
    return count


def our_files(home: Path, data_dir: Path) -> list[Path]:
    """Everything that is ours by name, links as such."""
    places = [*((home, name) for name in IN_HOME), *((data_dir, name) for name in IN_DATA)]
    ours = [path for folder, name in places for path in folder.glob(name)]
    return [path for top in ours for path in _below(top)]


def is_wide(path: Path) -> bool:
    """Open to others, and ours to narrow. False for what is gone."""
    try:
        facts = path.lstat()
    except OSError:
        return False
    return not stat.S_ISLNK(facts.st_mode) and bool(facts.st_mode & 0o077) and facts.st_uid == os.getuid()


def _below(top: Path) -> Iterator[Path]:
    yield top
    if top.is_symlink() or not top.is_dir():
        return
    for folder, directories, files in os.walk(top):
        yield from (Path(folder, name) for name in (*directories, *files))


def _narrow_one(path: Path) -> bool:
    """A file that vanishes meanwhile, or is another user's, is not ours to narrow."""
    try:
        if not is_wide(path):
            return False
        path.chmod(0o700 if path.is_dir() else 0o600)
    except OSError as error:
        logger.warning("the mode of %s cannot be narrowed: %s", path, error.strerror)
        return False
    return True
