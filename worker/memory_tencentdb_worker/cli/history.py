"""`history`, `diff` and `rollback`: the versions of a scene or the persona."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from memory_tencentdb.protocol import DIFF, HISTORY, ROLLBACK
from memory_tencentdb_worker.cli.connect import find_worker
from memory_tencentdb_worker.cli.exits import DONE
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import plain, print_json, print_table, say

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands

COLUMNS = ("revision", "at", "op", "status", "heat", "lines", "reason")


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    history = add_command(
        commands, places, "history", run_history,
        purpose="list the versions of a scene or of the persona", example="history persona",
    )  # fmt: skip
    diff = add_command(
        commands, places, "diff", run_diff,
        purpose="compare two versions of a scene or of the persona", example="diff Work --from 2 --to 5",
    )  # fmt: skip
    diff.add_argument("--from", dest="before", type=int, metavar="N", help="default: the version before")
    diff.add_argument("--to", dest="after", type=int, metavar="N", help="default: the newest")
    rollback = add_command(
        commands, places, "rollback", run_rollback,
        purpose="show what putting back a version would change, and do it with --yes",
        example="rollback persona --to 3 --yes",
    )  # fmt: skip
    rollback.add_argument("--to", dest="revision", type=int, required=True, metavar="N", help="the version to put back")
    rollback.add_argument("--dry-run", action="store_true", help="only show it (this is the default)")
    rollback.add_argument("--yes", action="store_true", help="do it: the old text becomes the newest version")
    for parser in (history, diff, rollback):
        parser.add_argument("name", metavar="NAME", help="persona, or a scene's file name, with or without .md")
        parser.add_argument("--user-id", default="", metavar="U", help="whose; default: the default user's")


def run_history(args: argparse.Namespace) -> int:
    answer = find_worker(args).client.get(_route(HISTORY, args.name, {"user_id": args.user_id}))
    if args.json:
        print_json(answer)
    else:
        print_table(COLUMNS, [[row[name] for name in COLUMNS] for row in answer["revisions"]])
    return DONE


def run_diff(args: argparse.Namespace) -> int:
    asked = {"user_id": args.user_id, "before": args.before, "after": args.after}
    given = {name: value for name, value in asked.items() if value is not None}
    answer = find_worker(args).client.get(_route(DIFF, args.name, given))
    if args.json:
        print_json(answer)
    else:
        print(plain(answer["diff"]) or "no difference")
    return DONE


def run_rollback(args: argparse.Namespace) -> int:
    dry_run = args.dry_run or not args.yes
    body = {"name": args.name, "revision": args.revision, "user_id": args.user_id, "dry_run": dry_run}
    answer = find_worker(args).client.post(ROLLBACK, body)
    if args.json:
        print_json(answer)
        return DONE
    print(plain(answer["diff"]) or "no difference")
    for text in answer["left_out"]:
        say(f"not put back, it holds no longer: {text}")
    say("nothing was changed: repeat with --yes to do it" if dry_run else f"put back as revision {answer['to']}")
    return DONE


def _route(route: str, name: str, parameters: dict[str, object]) -> str:
    path = route.partition("{")[0] + quote(name, safe="", errors="surrogatepass")
    return f"{path}?{urlencode(parameters, errors='surrogatepass')}"
