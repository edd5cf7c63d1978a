"""`watch`: turns, jobs, recalls and state as they change, for a person at a terminal."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memory_tencentdb.protocol import ACTIVITY, CAPTURE, INSPECT, RECALL, SEARCH_CONVERSATIONS, SEARCH_MEMORIES, STATUS
from memory_tencentdb_worker.cli.connect import WorkerClient, find_worker
from memory_tencentdb_worker.cli.exits import DONE, RefusedError, TimedOutError, UnreachableError, WrongUseError
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import plain, print_json

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands

SHORTEST_SECONDS = 0.2
LATEST_MESSAGES = 6
SHOWN_CHARS = 90
CLEAR = "\x1b[H\x1b[2J"
SHOWN_ROUTES = (("captures", (CAPTURE,)), ("recalls", (RECALL,)), ("searches", (SEARCH_MEMORIES, SEARCH_CONVERSATIONS)))

View = dict[str, Any]


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    watch = add_command(
        commands, places, "watch", run_watch,
        purpose="show turns, jobs, recalls and state as they change, until Ctrl-C", example="watch --interval 5",
    )  # fmt: skip
    watch.add_argument("--interval", type=float, default=2.0, metavar="SECONDS", help="between two looks (default 2)")
    watch.add_argument("--once", action="store_true", help="look once and end; so does --json")


def run_watch(args: argparse.Namespace) -> int:
    """A worker that goes away while one watches is waited for: it may be on its way back."""
    if not SHORTEST_SECONDS <= args.interval <= 3600:
        raise WrongUseError(f"--interval is between {SHORTEST_SECONDS} and 3600 seconds")
    view = _look(find_worker(args).client)
    if args.json:
        print_json(view)
        return DONE
    _show(frame(view, view))
    with contextlib.suppress(KeyboardInterrupt):
        while not args.once:
            time.sleep(args.interval)
            try:
                before, view = view, _look(find_worker(args).client)
                _show(frame(view, before))
            except (UnreachableError, TimedOutError, RefusedError) as error:
                _show(f"{_clock()}  {plain(str(error))}\n")
    return DONE


def frame(view: View, before: View) -> str:
    """One picture of the worker; figures that changed since `before` say by how much."""
    status, counts, jobs = view["status"], view["status"]["counts"], view["status"]["jobs"]
    rows = [f"{_clock()}  state {status['state']}  worker pid {status['worker']['pid']}"]
    rows += [f"  - {plain(str(one['message']), keep_lines=False)}" for one in status["reasons"]]
    rows.append("knows     " + ", ".join(
        f"{_shown(counts[name])} {name}{_change(counts[name], before['status']['counts'][name])}"
        for name in ("turns", "atoms", "scenes", "vectors")
    ))  # fmt: skip
    rows.append("jobs      " + ", ".join(
        f"{_shown(jobs[name])} {name}" for name in ("due", "running", "retrying", "waiting", "parked")
    ))  # fmt: skip
    rows.append(f"outbox    {_shown(status['outbox']['turns'])} turns waiting")
    for name, routes in SHOWN_ROUTES:
        rows.append(f"{name:<9} {_requests(view['requests'], before['requests'], routes)}")
    rows.append(_model(status))
    rows.append("latest")
    rows += [_message(one) for one in view["latest"]]
    return "\n".join(rows) + "\n"


def _look(client: WorkerClient) -> View:
    return {
        "status": client.get(STATUS),
        "requests": client.get(ACTIVITY)["requests"],
        "latest": client.get(f"{INSPECT}?level=L0&limit={LATEST_MESSAGES}")["data"],
    }


def _show(text: str) -> None:
    """A terminal is drawn over; what is written into a file stands below what came before."""
    print(f"{CLEAR}{text}" if sys.stdout.isatty() else text, end="", flush=True)


def _requests(now: dict[str, Any], before: dict[str, Any], routes: tuple[str, ...]) -> str:
    count, failed, seconds = (_sum(now, routes, name) for name in ("count", "failed", "seconds"))
    text = f"{count:.0f}{_change(count, _sum(before, routes, 'count'))}"
    if count:
        text += f", {seconds / count * 1000:.1f} ms on average"
    return text + (f", {failed:.0f} refused or failed" if failed else "")


def _sum(requests: dict[str, Any], routes: tuple[str, ...], name: str) -> float:
    return sum(float(requests[route][name]) for route in routes if route in requests)


def _model(status: dict[str, Any]) -> str:
    llm, calls = status["llm"], status["calls"]
    if not llm["configured"]:
        return "model     none: offline mode"
    breaker = "" if llm["breaker"] == "closed" else f", breaker {llm['breaker']}"
    used = f"{_shown(calls['today'])} calls today, {_shown(calls['tokens_in'])} tokens in"
    return f"model     {plain(str(llm['model']))}{breaker}, {used}, {_shown(calls['tokens_out'])} out"


def _message(one: dict[str, Any]) -> str:
    text = plain(str(one["content"]), keep_lines=False)
    cut = text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 3]}..."
    return f"  {str(one['recordedAt'])[11:19]} [{plain(str(one['sessionKey']))[:24]}] {one['role']}: {cut}"


def _change(now: float | None, before: float | None) -> str:
    difference = 0 if now is None or before is None else now - before
    return f" ({difference:+.0f})" if difference else ""


def _shown(value: float | None) -> str:
    """A broken store does not say."""
    return "?" if value is None else f"{value}"


def _clock() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
