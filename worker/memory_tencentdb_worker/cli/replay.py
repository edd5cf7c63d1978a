"""`replay` makes all memories again from the conversations, beside those in use, and changes over when told to."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from memory_tencentdb.protocol import REPLAY, REPLAY_STEP
from memory_tencentdb_worker.cli.connect import WorkerClient, find_worker
from memory_tencentdb_worker.cli.exits import DONE, RefusedError
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import indented, plain, print_json

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands

STEPS = ("start", "status", "diff", "switch", "rollback", "abandon")
SHOWN_FACTS = 20
STEP_SECONDS = 120.0


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    replay = add_command(
        commands, places, "replay", run_replay,
        purpose="make facts, scenes and persona again from the conversations, beside those in use, with a report before"
        " anything changes",
        example="replay --model gpt-5-mini --dry-run",
    )  # fmt: skip
    replay.add_argument(
        "step", nargs="?", default="start", choices=STEPS, metavar="STEP",
        help="start (default); status; diff: what would change; switch: use the new memories; rollback: the former ones"
        " again; abandon: throw the unused ones away",
    )  # fmt: skip
    replay.add_argument("--user-id", metavar="U", help="only this user's memories; default: everybody's")
    replay.add_argument(
        "--model", default="", metavar="M", help="this model of the same endpoint; default: as configured"
    )
    replay.add_argument("--dry-run", action="store_true", help="say what it would cost or change, and change nothing")
    replay.add_argument("--yes", action="store_true", help="do not ask")


def run_replay(args: argparse.Namespace) -> int:
    client = find_worker(args).client
    if args.step == "start":
        return _start(client, args)
    if args.step == "status":
        return _show(client.get(_step("status")), args, _describe_status)
    if args.step == "diff" or args.dry_run:
        return _show(client.get(_step("diff"), timeout_seconds=STEP_SECONDS), args, _describe_diff)
    if args.step == "abandon":
        _consent(args, "the memories that were made beside those in use are deleted; their calls have been paid for")
    done = client.post(_step(args.step), {}, timeout_seconds=STEP_SECONDS)
    return _show(done, args, _describe_done)


def _start(client: WorkerClient, args: argparse.Namespace) -> int:
    body = {"user_id": args.user_id, "model": args.model, "dry_run": True}
    plan = client.post(REPLAY, body, timeout_seconds=STEP_SECONDS)
    if args.dry_run:
        return _show(plan, args, _describe_plan)
    if not args.json:
        _describe_plan(plan)
    _consent(args, "the calls that --dry-run shows are made; what is in use stays in use")
    started = client.post(REPLAY, {**body, "dry_run": False}, timeout_seconds=STEP_SECONDS)
    return _show(started, args, _describe_started)


def _consent(args: argparse.Namespace, what: str) -> None:
    if args.yes:
        return
    if not args.json and sys.stdin.isatty():
        print(f"{what}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise RefusedError(f"nothing was done: {what}", "add --yes to do it", code="not_confirmed")


def _step(step: str) -> str:
    return REPLAY_STEP.replace("{step}", step)


def _show(answer: dict[str, Any], args: argparse.Namespace, describe: Any) -> int:
    if args.json:
        print_json(answer)
    else:
        describe(answer)
    return DONE


def _describe_plan(plan: dict[str, Any]) -> None:
    whose = "everybody" if plan["user_id"] is None else f"user {plan['user_id']!r}"
    print(
        f"replay for {plain(whose)}: {plan['messages']} messages in {plan['sessions']} sessions, with {plan['model']}"
    )
    cost = (
        "unknown (no call of this model has named a price)" if plan["cost_usd"] is None else f"${plan['cost_usd']:.2f}"
    )
    print(f"  about {plan['calls']} calls, {plan['tokens_in']:,} tokens in, {plan['tokens_out']:,} out, cost {cost}")
    print(f"  estimated from {plan['basis']}")


def _describe_started(answer: dict[str, Any]) -> None:
    print(f"replay {answer['id']} has begun; memories in use stay in use")
    print("  memory-tencentdb replay status | diff | switch | abandon")


def _describe_status(answer: dict[str, Any]) -> None:
    for name in ("shadow", "kept"):
        one = answer[name]
        if one is None:
            continue
        what = "made beside those in use" if name == "shadow" else "kept for rollback"
        print(
            f"{one['id']}  {one['state']}: {what}, {one['atoms']} facts, {one['scenes']} scenes, model {one['model']}"
        )
        if name == "shadow":
            print(f"  {one['messages_read']} of {one['messages']} messages read; {one['calls']} calls, "
                  f"{one['tokens_in']:,} + {one['tokens_out']:,} tokens, ${one['cost_usd']:.4f}")  # fmt: skip
            if one["parked"]:
                print(f"  {one['parked']} pieces were set aside: the answers could not be used")
            if one["error"]:
                print(f"  waits: {plain(one['error'])}")
    if answer["shadow"] is None and answer["kept"] is None:
        print("no replay is under way, and none is kept: memory-tencentdb replay --dry-run")


def _describe_diff(diff: dict[str, Any]) -> None:
    counts = diff["counts"]
    print(f"{counts['same']} facts are the same, {counts['changed']} changed, "
          f"{counts['only_old']} only in use now, {counts['only_new']} only new")  # fmt: skip
    for pair in diff["changed"][:SHOWN_FACTS]:
        print(indented(f"- {pair['old']['text']}\n+ {pair['new']['text']}", "  "))
    for sign, key in (("-", "only_old"), ("+", "only_new")):
        for fact in diff[key][:SHOWN_FACTS]:
            print(indented(f"{sign} {fact['text']}", "  "))
    if max(len(diff[key]) for key in ("changed", "only_old", "only_new")) > SHOWN_FACTS:
        print("  ... all of them with --json")
    print(f"scenes {diff['scenes']['old']} -> {diff['scenes']['new']}; spent {diff['spent']['tokens_in']:,} + "
          f"{diff['spent']['tokens_out']:,} tokens, ${diff['spent']['cost_usd']:.4f}")  # fmt: skip


def _describe_done(answer: dict[str, Any]) -> None:
    print(answer["message"])
