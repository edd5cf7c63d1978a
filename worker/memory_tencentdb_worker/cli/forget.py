"""`forget`: a plan, then deletion everywhere, then proof that nothing is left."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from memory_tencentdb.protocol import FORGET, FORGET_PENDING
from memory_tencentdb_worker.cli.connect import find_worker
from memory_tencentdb_worker.cli.exits import DEGRADED, DONE
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import plain, print_json, say

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands

LONGEST_SECONDS = 900.0
SHOWN_CHARS = 100


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    forget = add_command(
        commands, places, "forget", run_forget,
        purpose="forget for good: shows what would go; with --yes it goes, everywhere, and that is proved",
        example='forget --matching "locker 4711" --yes',
    )  # fmt: skip
    what = forget.add_mutually_exclusive_group(required=True)
    what.add_argument("--id", default="", metavar="ID", help="a fact, a message or a turn, with what it rests on")
    what.add_argument("--session", default="", metavar="S", help="a whole session")
    what.add_argument(
        "--matching", default="", metavar="TEXT", help="everything that holds this text, letter by letter"
    )
    what.add_argument("--before", default="", metavar="ISO", help="everything said before this time")
    what.add_argument(
        "--pending", action="store_true", help="what was asked to be forgotten in conversations: list, --yes or --drop"
    )
    forget.add_argument("--user-id", metavar="U", help="whose memory; default: the default user (--id: anybody's)")
    forget.add_argument("--dry-run", action="store_true", help="only show the plan, also with --yes")
    forget.add_argument("--yes", action="store_true", help="do it; it cannot be undone")
    forget.add_argument("--drop", action="store_true", help="with --pending: keep it all after all")
    forget.add_argument(
        "--backups", choices=("delete", "keep"), default="delete",
        help="copies of the memory that hold it; a new backup is made in any case (default: delete)",
    )  # fmt: skip


def run_forget(args: argparse.Namespace) -> int:
    client = find_worker(args).client
    if args.pending and not args.yes:
        answer = client.delete(FORGET_PENDING) if args.drop else client.get(FORGET_PENDING)
        _print_pending(answer, args)
        return DONE
    body = {
        "id": args.id,
        "session": args.session,
        "matching": args.matching,
        "before": args.before,
        "pending": args.pending,
        "yes": args.yes,
        "backups": args.backups,
        **({"dry_run": True} if args.dry_run else {}),
        **({"user_id": args.user_id} if args.user_id is not None else {}),
    }
    answer = client.post(FORGET, body, timeout_seconds=LONGEST_SECONDS)
    if args.json:
        print_json(answer)
    else:
        _print_plan(answer)
        if answer["dry_run"]:
            say("nothing was changed: add --yes to forget it for good")
        else:
            _print_result(answer)
    return DONE if answer["dry_run"] or not answer["proof"]["hits"] else DEGRADED


def _print_plan(answer: dict[str, Any]) -> None:
    plan = answer["plan"]
    verb = "would forget" if answer["dry_run"] else "forgot"
    print(f"{verb} {plan['messages']} messages ({plan['turns']} turns, {plan['sessions']} sessions) and "
          f"{plan['atoms']} facts with {plan['superseded']} former versions")  # fmt: skip
    if answer["dry_run"]:
        for item in plan["items"]:
            print(f"  {item['layer']} {item['id']}  {plain(item['text'], keep_lines=False)[:SHOWN_CHARS]}")
        if plan["more"]:
            print(f"  and {plan['more']} more")


def _print_result(answer: dict[str, Any]) -> None:
    print(f"scenes and persona lost {answer['lines']} lines; removed {answer['outbox_lines']} waiting turns, "
          f"{answer['log_places']} places in logs, {len(answer['copies_deleted'])} copies")  # fmt: skip
    proof = answer["proof"]
    searched = f"{proof['files']} files ({proof['bytes']} bytes) searched for {proof['texts']} texts"
    print(f"proof: {searched}: {proof['hits']} hits")
    for path in proof["where"]:
        print(f"  still in {path}")
    print(f"new backup: {answer['backup']}")


def _print_pending(answer: dict[str, Any], args: argparse.Namespace) -> None:
    if args.json:
        print_json(answer)
        return
    if "kept" in answer:
        print(f"kept: {answer['kept']} wishes were dropped")
        return
    for wish in answer["pending"]:
        print(f"{wish['at']} in session {plain(wish['session_key'])} (message {wish['asked_in']})")
        for target in wish["targets"]:
            print(f"  {target['layer']} {target['id']}  {plain(target['text'], keep_lines=False)[:SHOWN_CHARS]}")
    print("`forget --pending --yes` forgets it, `forget --pending --drop` keeps it" if answer["pending"] else "nothing")
