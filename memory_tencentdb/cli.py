"""`hermes memory_tencentdb ...`: hands over to the worker's own command line, for the home of the active profile.

The host imports this file without the rest of the package.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import launch
from .paths import home_under_hermes

if TYPE_CHECKING:
    import argparse

EXIT_NOT_REACHABLE = 4


def register_cli(subparser: argparse.ArgumentParser) -> None:
    """Takes all words as they are; `memory-tencentdb --help` explains them."""
    import argparse

    subparser.epilog = "The commands are those of memory-tencentdb; try: status, search, inspect, why, doctor"
    subparser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND ...")


def memory_tencentdb_command(args: Any) -> int:
    """Runs the command; returns its exit code."""
    import subprocess

    words = list(getattr(args, "arguments", None) or ["--help"])
    command = launch.command_line()
    if command is None:
        sys.stderr.write("memory_tencentdb: no worker is installed: run install.sh\n")
        return EXIT_NOT_REACHABLE
    if not words[0].startswith("-") and not any(word.partition("=")[0] in ("--home", "--data-dir") for word in words):
        words += ["--home", str(home_under_hermes())]
    finished = subprocess.run([*command, *words], env=launch.worker_environment(), check=False)  # noqa: S603 - no shell
    return finished.returncode
