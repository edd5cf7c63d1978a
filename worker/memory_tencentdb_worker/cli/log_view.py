"""`logs` shows the worker's log and can follow it through rotations."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from memory_tencentdb_worker.cli.connect import places_of
from memory_tencentdb_worker.cli.exits import DONE, RefusedError
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import plain
from memory_tencentdb_worker.logs import LOG_FILE

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands

FOLLOW_SECONDS = 0.5


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    parser = add_command(
        commands, places, "logs", run_logs,
        purpose="show the worker's log", example="logs -n 50 -f", json_output=False,
    )  # fmt: skip
    parser.add_argument("-n", "--lines", type=int, default=20, metavar="N", help="the last N lines (default 20)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")


def run_logs(args: argparse.Namespace) -> int:
    path = places_of(args).logs / LOG_FILE
    if not path.exists() and not args.follow:
        raise RefusedError(f"there is no log yet at {path}", "the worker writes it: memory-tencentdb start")
    for line in last_lines(path, args.lines):
        print(plain(line, keep_lines=False))
    if args.follow:
        with contextlib.suppress(KeyboardInterrupt):
            _follow(path)
    return DONE


def last_lines(path: Path, count: int) -> list[str]:
    """Empty when the file is not there."""
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return [line.rstrip("\n") for line in deque(stream, maxlen=max(count, 0))]
    except FileNotFoundError:
        return []


def _follow(path: Path) -> None:
    position, inode = (path.stat().st_size, path.stat().st_ino) if path.exists() else (0, 0)
    while True:
        time.sleep(FOLLOW_SECONDS)
        if not path.exists():
            continue
        facts = path.stat()
        if facts.st_ino != inode or facts.st_size < position:  # rotated
            position, inode = 0, facts.st_ino
        with path.open(encoding="utf-8", errors="replace") as stream:
            stream.seek(position)
            for line in stream:
                print(plain(line.rstrip("\n"), keep_lines=False), flush=True)
            position = stream.tell() if facts.st_size > position else position
