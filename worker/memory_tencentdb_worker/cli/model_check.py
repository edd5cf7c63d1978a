"""`config llm` and `config embedding`: what is set, and whether it answers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from memory_tencentdb.protocol import CHECK
from memory_tencentdb_worker.cli.connect import find_worker
from memory_tencentdb_worker.cli.exits import DEGRADED, DONE
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import plain, print_json

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands

CHECK_SECONDS = 120.0
"""The first question also loads the lane."""

NONE_SET = {
    "llm": "no model is in use here: facts are found by rules (a host's own model comes with its next session)",
    "embedding": "no embedder is in use: search is by words",
}


def add_checks(kinds: Commands, places: argparse.ArgumentParser) -> None:
    for part, what in (("llm", "model"), ("embedding", "embedder")):
        add_command(
            kinds, places, part, run_check,
            purpose=f"ask the {what} in use once, and say whether it answers", example=f"config {part}",
        ).set_defaults(part=part)  # fmt: skip


def run_check(args: argparse.Namespace) -> int:
    """Exit 6 when it was asked and did not answer."""
    client = find_worker(args).client
    answer: dict[str, Any] = client.post(CHECK.format(part=args.part), {}, timeout_seconds=CHECK_SECONDS)
    if args.json:
        print_json(answer)
    else:
        print(plain(describe(answer)))
    return DEGRADED if answer["asked"] and not answer["answers"] else DONE


def describe(answer: dict[str, Any]) -> str:
    if not answer["asked"]:
        return NONE_SET[answer["part"]]
    where = f" at {answer['endpoint']}" if answer["endpoint"] else ""
    if answer["answers"]:
        return f"{answer['model']}{where} answers ({answer['elapsed_ms'] / 1000:.1f} s)"
    return f"{answer['model']}{where} does NOT answer: {answer['error']}"
