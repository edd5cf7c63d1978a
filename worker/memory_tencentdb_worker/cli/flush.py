"""`flush` makes pending work due now and can wait for it; `rebuild` writes the readable files again."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from memory_tencentdb.protocol import FLUSH, REBUILD, STATUS
from memory_tencentdb_worker.cli.connect import WorkerClient, find_worker
from memory_tencentdb_worker.cli.exits import DONE, TIMED_OUT
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import print_json, say

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands

SLICE_SECONDS = 5.0
"""A long wait is asked for in slices, so that progress can be shown between them."""


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    flush = add_command(
        commands, places, "flush", run_flush,
        purpose="make all pending work due now; a paused model is asked once", example="flush --wait 60",
    )  # fmt: skip
    flush.add_argument("--session", default="", metavar="S", help="only this session")
    flush.add_argument("--wait", type=_seconds, default=0.0, metavar="SECONDS", help="return when all layers are idle")
    flush.add_argument("--parked", action="store_true", help="also try again what was parked")
    add_command(
        commands, places, "rebuild", run_rebuild,
        purpose="write conversations, records, scenes and persona files again from the store", example="rebuild",
    )  # fmt: skip


def run_flush(args: argparse.Namespace) -> int:
    answer = _flush(find_worker(args).client, args)
    if args.json:
        names = ("idle", "jobs_done", "jobs_parked", "waited_seconds")
        held_up = {"reasons": answer["reasons"]} if answer.get("reasons") else {}
        print_json({name: answer[name] for name in names} | held_up)
    else:
        _describe(answer, waited=args.wait > 0)
    return TIMED_OUT if args.wait > 0 and not answer["idle"] else DONE


def run_rebuild(args: argparse.Namespace) -> int:
    answer = find_worker(args).client.post(REBUILD, {}, timeout_seconds=600)
    if args.json:
        print_json(answer)
    else:
        print(f"wrote {answer.get('files', answer)} files")
    return DONE


def _flush(client: WorkerClient, args: argparse.Namespace) -> dict[str, Any]:
    started = time.monotonic()
    jobs_done = 0
    once = {"parked": args.parked, "ask_again": True}
    while True:
        left = args.wait - (time.monotonic() - started)
        wait = max(0.0, min(left, SLICE_SECONDS))
        body = {"session_key": args.session, "wait_seconds": wait, **once}
        answer: dict[str, Any] = client.post(FLUSH, body, timeout_seconds=wait + 30)
        once = {"parked": False, "ask_again": False}  # what is parked again stays parked, and one probe is enough
        jobs_done += answer["jobs_done"]
        if answer["idle"] or left <= SLICE_SECONDS:
            waited = time.monotonic() - started if args.wait > 0 else 0.0
            return {**answer, "jobs_done": jobs_done, "waited_seconds": round(waited, 3)}
        jobs = client.get(STATUS)["jobs"]
        say(f"{jobs_done} jobs done, {jobs['due']} due, {jobs['running']} running, {jobs['retrying']} retrying")


def _describe(answer: dict[str, Any], *, waited: bool) -> None:
    state = "all layers are idle" if answer["idle"] else ("still working" if waited else "work is due now")
    parked = f", {answer['jobs_parked']} parked (flush --parked tries them again)" if answer["jobs_parked"] else ""
    print(f"{state}: {answer['jobs_done']} jobs done{parked}, waited {answer['waited_seconds']:.1f} s")
    for reason in answer.get("reasons", ()):
        print(f"  {reason['message']}\n    {reason['action']}")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError("must be between 0 and 86400 seconds")
    return value
