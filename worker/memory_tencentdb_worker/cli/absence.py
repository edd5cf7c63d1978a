"""What to say when no worker answers: which home, why it may be away, and the very command that brings it back."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from memory_tencentdb_worker.cli.connect import places_of
from memory_tencentdb_worker.cli.exits import UnreachableError
from memory_tencentdb_worker.last_exit import read_exit

if TYPE_CHECKING:
    import argparse

    from memory_tencentdb_worker.places import Places


def own_command() -> list[str]:
    """This command with its absolute path, so that what is printed can be pasted whatever is on PATH."""
    script = Path(sys.executable).with_name("memory-tencentdb")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "memory_tencentdb_worker"]


def command_for(places: Places, *words: str) -> str:
    """One line for a shell that does `words` for the same home and data directory."""
    line = [*own_command(), *words, "--home", str(places.home)]
    if places.loaded.sources["data.baseDir"] == "command line":
        line += ["--data-dir", str(places.data_dir)]
    return shlex.join(line)


def why_away(places: Places) -> str:
    """How the last worker left, "" when nothing is known or there is nothing to explain."""
    left = read_exit(places.logs)
    return left.describe() if left is not None else ""


def explain(args: argparse.Namespace, error: UnreachableError) -> UnreachableError:
    """The same error in the words of the person who met it."""
    if error.hint:
        return error
    places = places_of(args)
    why = why_away(places)
    return UnreachableError(f"{error}{f': {why}' if why else ''}", f"start it: {command_for(places, 'start')}")
