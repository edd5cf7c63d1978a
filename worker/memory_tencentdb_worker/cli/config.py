"""`config show` and `config set`."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from memory_tencentdb_worker.cli.absence import command_for
from memory_tencentdb_worker.cli.connect import places_of
from memory_tencentdb_worker.cli.exits import DONE, ConfigurationError
from memory_tencentdb_worker.cli.family import add_command, add_group
from memory_tencentdb_worker.cli.model_check import add_checks
from memory_tencentdb_worker.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    kinds = add_group(commands, places, "config", purpose="show or change the configuration, ask the model once")
    add_command(
        kinds, places, "show", run_show,
        purpose="show every setting that is in force, and where it comes from", example="config show",
    )  # fmt: skip
    setter = add_command(
        kinds, places, "set", run_set,
        purpose="change one setting in the configuration file", example="config set memory.recall.maxResults 8",
    )  # fmt: skip
    setter.add_argument("key", metavar="KEY", help="dotted path, such as llm.model")
    setter.add_argument("value", metavar="VALUE")
    add_checks(kinds, places)


def run_show(args: argparse.Namespace) -> int:
    from memory_tencentdb_worker.config.load import effective_document
    from memory_tencentdb_worker.config.unused import note_of

    loaded = places_of(args).loaded
    document = effective_document(loaded)
    leaves = _leaves(document)
    for key, leaf in leaves:
        if note_of(key):
            leaf["note"] = note_of(key)
    if args.json:
        print_json(document)
        return DONE
    say(f"file: {loaded.file or 'none'}")
    rows = [(key, _shown(leaf["value"]), leaf["source"], leaf.get("note", "")) for key, leaf in leaves]
    print_table(("setting", "value", "source", "note"), rows)
    for problem in loaded.errors:
        say(f"problem: {problem.key}: {problem.problem}; used: {_shown(problem.used)}")
    for reason in loaded.fatal:
        say(f"the worker will not start: {reason}")
    return DONE


def run_set(args: argparse.Namespace) -> int:
    from memory_tencentdb_worker.config.edit import set_value
    from memory_tencentdb_worker.config.settings import shown
    from memory_tencentdb_worker.errors import ConfigError

    places = places_of(args)
    try:
        edit = set_value(places.home, args.key, args.value, os.environ)
    except (ConfigError, OSError) as error:
        raise ConfigurationError(str(error)) from error
    value = shown(edit.key, args.value)
    if args.json:
        backup = str(edit.backup) if edit.backup else None
        print_json({"key": edit.key, "value": value, "file": str(edit.file), "backup": backup})
        return DONE
    print(f"{edit.key} = {value} in {edit.file}" if value else f"{edit.key} is empty now in {edit.file}")
    if edit.backup:
        say(f"the file's form did not allow a change of one line: it was rewritten, its comments are in {edit.backup}")
    say(f"a running worker reads it after: {command_for(places, 'restart')}")
    return DONE


def _leaves(document: dict[str, Any], prefix: str = "") -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for name, value in document.items():
        if set(value) == {"value", "source"}:
            found.append((f"{prefix}{name}", value))
        else:
            found += _leaves(value, f"{prefix}{name}.")
    return found


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
