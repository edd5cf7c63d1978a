"""`edit` puts the owner's word in the place of a fact, `undo` takes a change back, `audit` lists them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from memory_tencentdb.protocol import AUDIT, EDIT, UNDO
from memory_tencentdb_worker.cli.connect import find_worker
from memory_tencentdb_worker.cli.exits import DONE
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import print_json, print_table

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    edit = add_command(
        commands, places, "edit", run_edit,
        purpose="say a fact otherwise; the former version is kept",
        example='edit m_0123456789abcdef --content "The user lives in Porto."',
    )  # fmt: skip
    edit.add_argument("id", metavar="ID", help="a fact's id, as search shows it")
    edit.add_argument("--content", required=True, metavar="TEXT", help="the fact, as it shall be shown to the agent")
    edit.add_argument("--user-id", metavar="U", help="whose memory; default: anybody's with this id")
    undo = add_command(
        commands, places, "undo", run_undo,
        purpose="take back the newest change, or the one with this number; a forgetting cannot be undone, an undo can",
        example="undo 42",
    )  # fmt: skip
    undo.add_argument(
        "audit_id", nargs="?", type=int, metavar="AUDIT_ID",
        help="as `audit` lists it; default: the newest that can be undone (after an undo: that undo)",
    )  # fmt: skip
    undo.add_argument("--user-id", metavar="U", help="only this user's changes; default: everybody's")
    audit = add_command(
        commands, places, "audit", run_audit,
        purpose="list what was changed: replaced, edited, forgotten", example="audit -n 20",
    )  # fmt: skip
    audit.add_argument("-n", "--limit", type=int, default=50, metavar="N", help="the newest N (default 50)")
    audit.add_argument("--user-id", metavar="U", help="only this user's changes; default: everybody's")


def run_edit(args: argparse.Namespace) -> int:
    answer = find_worker(args).client.post(EDIT, {"id": args.id, "content": args.content, **_user(args)})
    if args.json:
        print_json(answer)
    else:
        print(f"{answer['id']} stands in the place of {answer['replaced']} (`undo {answer['audit_id']}` takes it back)")
    return DONE


def run_undo(args: argparse.Namespace) -> int:
    wanted = {} if args.audit_id is None else {"audit_id": args.audit_id}
    answer = find_worker(args).client.post(UNDO, {**wanted, **_user(args)})
    if args.json:
        print_json(answer)
    else:
        print(f"undid change {answer['undone']} ({answer['action']})")
    return DONE


def run_audit(args: argparse.Namespace) -> int:
    query = urlencode({"limit": args.limit, **_user(args)})
    answer: dict[str, Any] = find_worker(args).client.get(f"{AUDIT}?{query}")
    if args.json:
        print_json(answer)
    else:
        columns = ("id", "at", "action", "target", "replaced_by", "undoable")
        print_table(columns, [[row[name] for name in columns] for row in answer["changes"]])
    return DONE


def _user(args: argparse.Namespace) -> dict[str, Any]:
    return {} if args.user_id is None else {"user_id": args.user_id}
