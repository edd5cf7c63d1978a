"""How many stated facts an ordinary day keeps: sessions side by side, one fact in every turn, a model that takes its
time, and the end of each session announced while its last turns are still unread.

The three runs are those in which the original kept 29 of 40, 23 of 30 and 72 of 160 facts: comparison with known facts
off, nothing flushed by hand, and what counts is what is a memory when the pipeline has come to rest.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import fake_openai
from bench.report import publish
from planted import kept_atoms
from processes import WorkerProcess

REST_SECONDS = 300.0


@dataclass(frozen=True)
class Run:
    sessions: int
    turns: int
    think_seconds: float
    model_seconds: float
    original: int

    @property
    def facts(self) -> int:
        return self.sessions * self.turns

    @property
    def name(self) -> str:
        return (
            f"{self.sessions} sessions x {self.turns} turns, {self.think_seconds} s between turns,"
            f" model {self.model_seconds} s"
        )


RUNS = (Run(4, 10, 2.0, 0.5, 29), Run(3, 10, 4.0, 2.0, 23), Run(8, 20, 0.5, 1.0, 72))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=1, help="how often each run is made")
    options = parser.parse_args()
    rows: list[tuple[str, object]] = []
    figures = []
    for run in RUNS:
        kept = [_kept(run) for _ in range(options.repeat)]
        rows.append((run.name, f"{', '.join(map(str, kept))} of {run.facts} (original: {run.original})"))
        figures.append({**vars(run), "facts": run.facts, "kept": kept})
    publish("keeps", rows, {"runs": figures})


def _kept(run: Run) -> int:
    with (
        fake_openai.running(latency_seconds=run.model_seconds) as fake,
        tempfile.TemporaryDirectory() as folder,
    ):
        config = {
            "llm": {"baseUrl": fake.url, "apiKey": "none", "model": "scripted"},
            "memory": {"extraction": {"enableDedup": False}},
        }
        worker = WorkerProcess(Path(folder) / "home", config)
        worker.start()
        try:
            _talk(worker, run)
            _wait_for_rest(worker)
            contents = [atom.content for atom in kept_atoms(Path(worker.endpoint["data_dir"]))]
        finally:
            worker.stop()
    return sum(any(_marker(*fact) in content for content in contents) for fact in _facts(run))


def _talk(worker: WorkerProcess, run: Run) -> None:
    with ThreadPoolExecutor(run.sessions, "session") as pool:
        for talk in [pool.submit(_session, worker, run, number) for number in range(run.sessions)]:
            talk.result()


def _session(worker: WorkerProcess, run: Run, session: int) -> None:
    for turn in range(run.turns):
        text = f"I own the lighthouse {_marker(session, turn)} on the coast."
        worker.capture(text, "A fine lighthouse.", session=f"s{session}", turn_id=f"turn-{session * 1000 + turn}")
        time.sleep(run.think_seconds)
    worker.post("/session/end", {"session_key": f"s{session}"})


def _wait_for_rest(worker: WorkerProcess) -> None:
    until = time.monotonic() + REST_SECONDS
    while time.monotonic() < until:
        jobs = worker.get("/v1/status").json()["jobs"]
        if not any(jobs[name] for name in ("due", "running", "retrying")):
            return
        time.sleep(0.5)
    raise TimeoutError(f"the pipeline did not come to rest in {REST_SECONDS:.0f} s")


def _marker(session: int, turn: int) -> str:
    return f"Lamp{session:02d}x{turn:02d}"


def _facts(run: Run) -> Sequence[tuple[int, int]]:
    return [(session, turn) for session in range(run.sessions) for turn in range(run.turns)]


if __name__ == "__main__":
    main()
