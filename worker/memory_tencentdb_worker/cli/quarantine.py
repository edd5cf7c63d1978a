"""`quarantine`: what is held back as a suspected attempt to plant something, and what becomes of it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from memory_tencentdb.protocol import QUARANTINE, SUSPECT
from memory_tencentdb_worker.cli.connect import find_worker
from memory_tencentdb_worker.cli.exits import DONE
from memory_tencentdb_worker.cli.family import add_command, add_group
from memory_tencentdb_worker.cli.output import plain, print_json

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands

SHOWN_CHARS = 100


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    group = add_group(commands, places, "quarantine", purpose="messages held back as suspected injections")
    listed = add_command(
        group, places, "list", run_list, purpose="what waits for a decision", example="quarantine list"
    )  # fmt: skip
    listed.add_argument("--state", default="", choices=("held", "released", "dropped", "all"), help="default: held")
    listed.add_argument("--user-id", metavar="U", help="only this user's; default: everybody's")
    listed.add_argument("--limit", type=int, default=50, metavar="N")
    for name, run, purpose in (
        ("show", run_show, "one of them in full, with what is suspicious about it"),
        ("release", run_release, "it is no attack: it is remembered like any other message"),
        ("drop", run_drop, "never remember it; it stays in the record of conversations (`forget` removes it)"),
    ):
        command = add_command(
            group, places, name, run, purpose=purpose, example=f"quarantine {name} l0_0123456789abcdef"
        )
        command.add_argument("id", metavar="ID", help="the id of the message")


def run_list(args: argparse.Namespace) -> int:
    wanted = {"state": args.state, "limit": args.limit, **({} if args.user_id is None else {"user_id": args.user_id})}
    answer = find_worker(args).client.get(f"{QUARANTINE}?{urlencode(wanted)}")
    if args.json:
        print_json(answer)
        return DONE
    for one in answer["items"]:
        text = " ".join(one["suspicious"]) or one["text"]
        codes = ", ".join(reason["code"] for reason in one["reasons"])
        print(f"{one['id']}  {one['at']}  {one['state']}  [{codes}]  {plain(text, keep_lines=False)[:SHOWN_CHARS]}")
    if not answer["items"]:
        print("nothing")
    return DONE


def run_show(args: argparse.Namespace) -> int:
    return _print_one(find_worker(args).client.get(_route(args)), args)


def run_release(args: argparse.Namespace) -> int:
    return _print_one(find_worker(args).client.post(_route(args) + "/release", {}), args)


def run_drop(args: argparse.Namespace) -> int:
    return _print_one(find_worker(args).client.post(_route(args) + "/drop", {}), args)


def _route(args: argparse.Namespace) -> str:
    return SUSPECT.format(id=quote(args.id, safe=""))


def _print_one(one: dict[str, Any], args: argparse.Namespace) -> int:
    if args.json:
        print_json(one)
        return DONE
    user = f", user {plain(one['user_id'])!a}" if one["user_id"] else ""
    print(
        f"{one['id']}: {one['state']}, {one['origin']}, said {one['at']} in session {plain(one['session_key'])}{user}"
    )
    for reason in one["reasons"]:
        print(f"  {reason['code']}: {reason['meaning']}")
    for text in one["suspicious"]:
        print(f"  > {plain(text, keep_lines=False)}")
    print(plain(one["text"]))
    return DONE
