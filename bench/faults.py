"""The kill matrix: SIGKILL at every fault point, many times, under concurrent captures and recalls; then a recovery
without faults, after which nothing may be lost, twice or at odds with anything else. And the scenarios of other faults.

Runs on Linux (it looks for what is left behind in /proc). Prints its table as far as it came when it is interrupted.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial

import fake_openai
from bench.fault_checks import Findings
from bench.fault_run import FaultRun, Plan, fault_text
from bench.fault_scenarios import SCENARIOS
from bench.report import publish
from memory_tencentdb.faults import POINTS

KINDS = ("lost", "duplicated", "inconsistent", "leaked")


@dataclass
class Row:
    """What came of all runs of one point or scenario."""

    runs: int = 0
    fired: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    def add(self, fired: bool, findings: Findings) -> None:
        self.runs += 1
        self.fired += fired
        for kind in KINDS:
            self.counts[kind] += bool(getattr(findings, kind))

    @property
    def good(self) -> bool:
        return self.fired > 0 and not any(self.counts.values())

    def __str__(self) -> str:
        kinds = "  ".join(f"{self.counts[kind]} {kind}" for kind in KINDS)
        return f"{self.runs:4} runs  {self.fired:4} fired  {kinds}{'' if self.fired else '  NOT REACHED'}"


@dataclass(frozen=True)
class Task:
    row: str
    seed: int
    run: Callable[[], tuple[bool, Findings]]


def kill_once(point: str, seed: int, *, real_litellm: bool = False) -> tuple[bool, Findings]:
    """One run of one point: whether its fault fired, and what was found."""
    with fake_openai.running() as endpoint:
        run = FaultRun(Plan(fault_text(point, seed), seed, real_litellm=real_litellm), endpoint)
        try:
            findings = run.run()
            return run.fired, findings
        finally:
            run.remove()


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """Seed by seed over all rows, so that a run that is cut short has treated all rows alike."""
    names = options.points.split(",") if options.points else [*POINTS, *SCENARIOS]
    unknown = [name for name in names if name not in (*POINTS, *SCENARIOS)]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join([*POINTS, *SCENARIOS])}")
    for seed in range(options.first, options.first + options.seeds):
        for name in names:
            if name in SCENARIOS:
                if seed - options.first < options.scenario_seeds:
                    yield Task(name, seed, partial(SCENARIOS[name], seed))
            else:
                yield Task(name, seed, partial(kill_once, name, seed, real_litellm=options.real_litellm))


class Matrix:
    def __init__(self, jobs: int) -> None:
        self.rows: dict[str, Row] = {}
        self._jobs = jobs
        self._begun = time.monotonic()
        self._interrupted = False

    def interrupt(self, *_: object) -> None:
        self._interrupted = True

    def work(self, todo: Iterator[Task]) -> None:
        running: dict[Future[tuple[bool, Findings]], Task] = {}
        with ThreadPoolExecutor(self._jobs) as pool:
            for task in todo:
                if self._interrupted:
                    break
                running[pool.submit(task.run)] = task
                if len(running) >= self._jobs:
                    self._collect(running)
            while running:
                self._collect(running)

    def _collect(self, running: dict[Future[tuple[bool, Findings]], Task]) -> None:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            task = running.pop(future)
            fired, findings = future.result()
            row = self.rows.setdefault(task.row, Row())
            row.add(fired, findings)
            self._tell(task, fired, findings)

    def _tell(self, task: Task, fired: bool, findings: Findings) -> None:
        done, seconds = sum(row.runs for row in self.rows.values()), time.monotonic() - self._begun
        outcome = ("fired" if fired else "not fired") + ("" if findings.clean else ", FOUND")
        print(f"{done:5} {seconds:6.0f} s  seed {task.seed:3}  {task.row}: {outcome}", file=sys.stderr)
        for line in findings.lines():
            print(f"      {line}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="runs of every fault point (default 5)")
    parser.add_argument("--scenario-seeds", type=int, default=5, help="runs of every scenario (default 5)")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--points", default="", help="only these points or scenarios, separated by commas")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the homes in which something was found")
    parser.add_argument("--real-litellm", action="store_true", help="instead of the stand-in: some seconds more a run")
    options = parser.parse_args()
    FaultRun.keep_unclean = options.keep
    matrix = Matrix(options.jobs)
    signal.signal(signal.SIGINT, matrix.interrupt)
    signal.signal(signal.SIGTERM, matrix.interrupt)
    matrix.work(tasks(options))
    table: list[tuple[str, object]] = list(matrix.rows.items())
    total = {kind: sum(row.counts[kind] for row in matrix.rows.values()) for kind in KINDS}
    runs, fired = (sum(getattr(row, name) for row in matrix.rows.values()) for name in ("runs", "fired"))
    table.append(("all", f"{runs} runs, {fired} fired, {', '.join(f'{total[kind]} {kind}' for kind in KINDS)}"))
    rows = {name: {"runs": row.runs, "fired": row.fired, **row.counts} for name, row in matrix.rows.items()}
    publish("faults", table, {"runs": runs, "fired": fired, **total, "rows": rows})
    sys.exit(0 if all(row.good for row in matrix.rows.values()) else 1)


if __name__ == "__main__":
    main()
