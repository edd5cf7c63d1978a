"""A disk of a few megabytes that can be filled up, for tests of a full one. Needs the right to mount."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class SmallDisk:
    place: Path

    def fill(self) -> None:
        """To the last byte."""
        with (self.place / "filler").open("ab", buffering=0) as file:
            for size in (65536, 4096, 1):
                try:
                    while file.write(b"x" * size):
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        (self.place / "filler").unlink()


@contextmanager
def small_disk(place: Path, size: str = "6m") -> Iterator[SmallDisk]:
    """A tmpfs on `place`; the test is skipped where mounting is not allowed."""
    place.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield SmallDisk(place)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
