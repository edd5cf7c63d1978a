"""How a command is declared: purpose, example, function."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

Command = Callable[[argparse.Namespace], int]


def add_command(
    commands: Commands,
    places: argparse.ArgumentParser,
    name: str,
    command: Command,
    *,
    purpose: str,
    example: str,
    json_output: bool = True,
) -> argparse.ArgumentParser:
    """One command that takes `--home` and `--data-dir`; with `json_output` also `--json`."""
    parser = commands.add_parser(
        name,
        parents=[places],
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=f"example:\n  memory-tencentdb {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=command)
    if json_output:
        parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    return parser


def add_group(commands: Commands, places: argparse.ArgumentParser, name: str, *, purpose: str) -> Commands:
    """A command with sub-commands."""
    parser = commands.add_parser(
        name, parents=[places], help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.", allow_abbrev=False
    )
    return parser.add_subparsers(metavar="WHAT", required=True, parser_class=type(parser))
