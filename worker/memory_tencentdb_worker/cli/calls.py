"""`calls` shows what models have cost, from the ledger."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from memory_tencentdb.protocol import CALLS
from memory_tencentdb_worker.cli.connect import find_worker
from memory_tencentdb_worker.cli.exits import DONE
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import print_json, print_table

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands

COLUMNS = ("calls", "failed", "texts", "tokens in", "tokens out", "cost $", "seconds")


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    calls = add_command(
        commands, places, "calls", run_calls,
        purpose="show calls of models and embedders: tokens, money, time", example="calls --by day --since 2026-03-01",
    )  # fmt: skip
    calls.add_argument("--since", default="", metavar="TIME", help="a date or an ISO time; default: the first call")
    calls.add_argument("--until", default="", metavar="TIME", help="before this time; default: now")
    calls.add_argument("--by", default="layer", choices=("layer", "task", "model", "day"), help="default: layer")


def run_calls(args: argparse.Namespace) -> int:
    query = urlencode({"since": args.since, "until": args.until, "by": args.by}, errors="surrogatepass")
    answer = find_worker(args).client.get(f"{CALLS}?{query}")
    if args.json:
        print_json(answer)
        return DONE
    rows = [*answer["rows"], answer["total"]]
    print_table((answer["by"], *COLUMNS), [_cells(row) for row in rows])
    if answer["total"]["estimated"]:
        print(f"of {answer['total']['estimated']} calls the endpoint named no tokens: they are estimated")
    return DONE


def _cells(row: dict[str, int | float | str]) -> list[object]:
    names = ("key", "calls", "failed", "texts", "tokens_in", "tokens_out")
    return [*(row[name] for name in names), f"{row['cost_usd']:.4f}", f"{float(row['elapsed_ms']) / 1000:.1f}"]
