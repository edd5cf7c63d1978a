"""`hermes memory_tencentdb ...`: hands over to the worker's own command line, for the home of the active profile.

The host imports this file without the rest of the package.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

from . import launch
from .errors import ProviderError
from .paths import home_under_hermes

if TYPE_CHECKING:
    import argparse

EXIT_NOT_REACHABLE = 4
WITHOUT_WORKER = frozenset({"run", "start", "stop", "restart", "logs"})
"""Commands about the worker's life; for the others it is woken as it is by a session of the host."""
START_SECONDS = 30


def register_cli(subparser: argparse.ArgumentParser) -> None:
    """Takes all words as they are; `memory-tencentdb --help` explains them."""
    import argparse

    subparser.epilog = "The commands are those of memory-tencentdb; try: status, search, inspect, why, config"
    subparser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND ...")


def memory_tencentdb_command(args: Any) -> NoReturn:
    """Runs the command and ends this process with its exit code: the host does not look at a returned one."""
    import subprocess

    words = list(getattr(args, "arguments", None) or ["--help"])
    try:
        command = launch.command_line()
    except ProviderError as error:
        sys.stderr.write(f"memory_tencentdb: {error}\n")
        raise SystemExit(EXIT_NOT_REACHABLE) from error
    if command is None:
        sys.stderr.write(f"memory_tencentdb: no worker is installed: {launch.how_to_install()}\n")
        raise SystemExit(EXIT_NOT_REACHABLE)
    environment = launch.worker_environment()
    if not words[0].startswith("-") and not any(word.partition("=")[0] in ("--home", "--data-dir") for word in words):
        home = ["--home", str(home_under_hermes())]
        words += home
        if words[0] not in WITHOUT_WORKER and words[:2] not in (["config", "show"], ["config", "set"]):
            _wake([*command, "start", *home], environment)
    finished = subprocess.run([*command, *words], env=environment, check=False)  # noqa: S603 - no shell
    raise SystemExit(finished.returncode)


def _wake(line: list[str], environment: dict[str, str]) -> None:
    """Where it does not start, the command that is run next says why."""
    import subprocess

    try:
        subprocess.run(line, env=environment, check=False, capture_output=True, timeout=START_SECONDS)  # noqa: S603
    except subprocess.TimeoutExpired:
        sys.stderr.write("memory_tencentdb: the worker is slow to start\n")
