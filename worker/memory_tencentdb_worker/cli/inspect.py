"""`inspect` looks into one layer, or at all of them."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from memory_tencentdb.protocol import INSPECT
from memory_tencentdb_worker.cli.connect import find_worker
from memory_tencentdb_worker.cli.exits import DONE
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import plain, print_json, print_table, say

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands

COLUMNS = {
    "L0": ("recordedAt", "role", "content", "sessionKey", "id"),
    "L1": ("updatedTime", "type", "priority", "content", "sceneName", "id"),
    "L2": ("filename", "heat", "updated", "summary"),
    "L3": ("content",),
}


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    parser = add_command(
        commands, places, "inspect", run_inspect,
        purpose="list messages (L0), atoms (L1), scenes (L2) or the persona (L3)",
        example="inspect -L L1 --since 7d -f type=persona,priority>=80",
    )  # fmt: skip
    parser.add_argument("-L", "--level", choices=("L0", "L1", "L2", "L3"), help="one layer; default: an overview")
    parser.add_argument("--since", metavar="WHEN", help="ISO time, or 7d, 24h, 30m before now")
    parser.add_argument("--until", metavar="WHEN")
    parser.add_argument("-f", "--filter", metavar="FILTER", help="such as role=user or type=persona,priority>=80")
    parser.add_argument("-l", "--limit", type=int, default=50, metavar="N", help="rows on a page (default 50)")
    parser.add_argument("--offset", type=int, default=0, metavar="N")
    parser.add_argument("--sort", choices=("asc", "desc"), default="desc", help="by time (default desc)")
    parser.add_argument("--file", metavar="NAME", help="with -L L2: one scene in full")
    parser.add_argument("--format", choices=("table", "json", "jsonl"), default="table")
    parser.add_argument("--as-of", metavar="ISO", help="with -L: what was known and valid then")
    parser.add_argument("--user-id", metavar="U", help="only this user's; default: everybody's")


def run_inspect(args: argparse.Namespace) -> int:
    given = {
        name: getattr(args, name)
        for name in ("level", "since", "until", "filter", "limit", "offset", "sort", "file", "user_id", "as_of")
        if getattr(args, name) is not None
    }
    document = find_worker(args).client.get(f"{INSPECT}?{urlencode(given, errors='surrogatepass')}")
    if args.json or args.format == "json":
        print_json(document)
    elif args.format == "jsonl":
        rows = document["data"] if isinstance(document["data"], list) else [document["data"]]
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
    else:
        _print_document(document, args.level)
    return DONE


def _print_document(document: dict[str, Any], level: str | None) -> None:
    data = document["data"]
    if level is None:
        print_table(("what", "value"), [(name, _short(value)) for name, value in _flat(data)])
    elif isinstance(data, dict):
        print(plain(str(data.get("content", ""))) or "not written yet")
    elif level == "L3":
        print("\n\n".join(plain(str(row.get("content", ""))) for row in data) or "not written yet")
    else:
        columns = [name for name in COLUMNS[level] if not data or name in data[0]] or list(data[0])
        print_table(columns, [[row.get(name) for name in columns] for row in data])
        say(f"{len(data)} of {document.get('total', len(data))}, from {document.get('offset', 0)}")


def _flat(data: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if not isinstance(data, dict):
        return [(prefix or "data", data)]
    return [pair for name, value in data.items() for pair in _flat(value, f"{prefix}.{name}" if prefix else str(name))]


def _short(value: Any) -> str:
    return str(len(value)) if isinstance(value, list) else str(value)
