"""Reads the command line and runs one command. Only argparse and the commands' own texts are loaded for `--help`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from memory_tencentdb_worker.cli import (
    calls,
    config,
    diagnostics,
    doctor,
    edit,
    flush,
    forget,
    history,
    inspect,
    lifecycle,
    log_view,
    pause,
    quarantine,
    replay,
    rescan,
    search,
    status,
    trace,
    turns,
    watch,
)
from memory_tencentdb_worker.cli.exits import (
    CONFIGURATION,
    DONE,
    WRONG_USE,
    CommandError,
    ConfigurationError,
    UnreachableError,
    WrongUseError,
)
from memory_tencentdb_worker.cli.output import prepare_streams, print_error

DESCRIPTION = "Long-term memory for AI agents: look after its worker, look into what it knows."

EPILOG = """\
first steps:
  memory-tencentdb start                       start the worker of this home
  memory-tencentdb status                      is it well, how much does it know
  memory-tencentdb search memories "coffee"    what it knows about coffee
  memory-tencentdb why m_0123456789abcdef      the messages a memory rests on

exit codes: 0 done, 1 wrong use, 2 not found or refused, 3 configuration error,
            4 worker not reachable, 5 timed out, 6 degraded (status, doctor)
"""


LONGEST_SHOWN_PATH = 500


class Parser(argparse.ArgumentParser):
    """argparse, but wrong use ends with our exit code."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise WrongUseError(message, f"more: {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code. Every result goes to stdout, everything else to stderr."""
    prepare_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except CommandError as error:
        print_error(error, as_json="--json" in words)
        return error.exit_code
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # a home that is a file, a disk that takes nothing: the person's business, not a defect
        print_error(ConfigurationError(_what_failed(error)), as_json="--json" in words)
        return CONFIGURATION


def _what_failed(error: OSError) -> str:
    where = f"{error.filename}: "[:LONGEST_SHOWN_PATH] if error.filename else ""
    return f"{where}{error.strerror or error}"


def _run(words: list[str]) -> int:
    parser = build_parser()
    args = parser.parse_args(words)
    if getattr(args, "command", None) is None:
        parser.print_help()
        return WRONG_USE
    _take_host_variables(args)
    try:
        return int(args.command(args))
    except UnreachableError as error:
        from memory_tencentdb_worker.cli.absence import explain

        raise explain(args, error) from error


def _take_host_variables(args: argparse.Namespace) -> None:
    from pathlib import Path

    from memory_tencentdb.paths import default_home
    from memory_tencentdb_worker.host_environment import host_variables

    home = Path(args.home).expanduser().absolute() if args.home else default_home()
    os.environ.update(host_variables(home, os.environ))


def build_parser() -> Parser:
    parser = Parser(
        prog="memory-tencentdb",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_places(parser, default=None)
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    places = Parser(add_help=False, allow_abbrev=False)
    _add_places(places, default=argparse.SUPPRESS)
    for family in (
        *(lifecycle, status, watch, log_view, turns, search, flush, inspect, trace, history, calls, replay),
        *(forget, rescan, edit, pause, quarantine, config, doctor, diagnostics),
    ):
        family.add_commands(commands, places)
    return parser


def _add_places(parser: argparse.ArgumentParser, default: object) -> None:
    for name, meaning in (
        ("--home", "the home: configuration, logs, data"),
        ("--data-dir", "the data directory, when it is elsewhere"),
    ):
        parser.add_argument(name, type=_directory, metavar="DIR", default=default, help=meaning)


def _directory(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("names no directory")
    return text


def _version() -> str:
    from memory_tencentdb.protocol import VERSION

    return f"memory-tencentdb {VERSION}"
