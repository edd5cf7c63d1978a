"""`rescan`: secrets that were stored before they were redacted; a plan first, then they are, everywhere."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from memory_tencentdb.protocol import RESCAN
from memory_tencentdb_worker.cli.connect import find_worker
from memory_tencentdb_worker.cli.exits import DEGRADED, DONE
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import print_json, say

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands

LONGEST_SECONDS = 900.0


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    rescan = add_command(
        commands, places, "rescan", run_rescan,
        purpose="look for secrets in what is stored already; with --yes they are redacted everywhere",
        example="rescan --yes",
    )  # fmt: skip
    rescan.add_argument("--dry-run", action="store_true", help="only show the plan, also with --yes")
    rescan.add_argument("--yes", action="store_true", help="do it; the secrets cannot be had back")


def run_rescan(args: argparse.Namespace) -> int:
    client = find_worker(args).client
    answer = client.post(RESCAN, {"yes": args.yes, "dry_run": args.dry_run}, timeout_seconds=LONGEST_SECONDS)
    plan = answer["plan"]
    if args.json:
        print_json(answer)
    else:
        verb = "would redact" if answer["dry_run"] else "redacted"
        print(f"{verb} {plan['messages']} messages, {plan['atoms']} facts, {plan['revisions']} revisions")
        for secret in plan["secrets"]:
            print(f"  [redacted:{secret['mark']}]  {secret['places']} places")
        if answer["dry_run"] and plan["secrets"]:
            say("nothing was changed: add --yes to redact them for good")
        elif answer["operation"]:
            proof = answer["proof"]
            print(f"looked through {proof['files']} files: found in {proof['hits']}")
            for path in proof["where"]:
                print(f"  {path}")
    return DEGRADED if answer["operation"] and answer["proof"]["hits"] else DONE
