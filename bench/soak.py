"""A long day in one life of host and worker: thousands of captures with recalls in between, through the real provider.

What must not grow with the number of turns is sampled on the way: resident memory, descriptors and threads of worker
and host, and the logs. Extraction runs by rules (no model), so that the whole pipeline works along.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.report import publish
from memory_tencentdb.link import Link
from memory_tencentdb.protocol import FLUSH, STATUS
from memory_tencentdb.provider import TencentDBMemoryProvider
from processes import ROOT

RECALL_EVERY = 3
SESSION_TURNS = 25
SAMPLES = 50
READY_SECONDS = 30.0
LEAVE_SECONDS = 15.0
FLUSH_SECONDS = 600.0
WARM_UP = 0.5
"""Of the run, left out of the slope: caches fill, dictionaries are loaded."""

SAID = (
    "I live in {place} now.",  # changes now and then
    "What was it again about {name} and the {thing}, number {turn}?",
    "I like {thing} from stall {turn}.",  # always new
    "The build of {name} failed because of module {turn}.",
    "My dog is called {name}.",  # the same again and again
    "Can you show me the {thing} table of run {turn} once more?",
    "我喜欢第{turn}家店的{thing}。",
    "Let us go on with step {turn} of the plan for {name}.",
)
PLACES = ("Bergen", "Lisbon", "Osaka", "Leeds", "Porto", "Gdansk", "Lyon", "Turku")
NAMES = ("Bramble", "Nettle", "Mira", "Jonas", "Ravi", "Ana")
THINGS = ("tea", "rye bread", "figs", "metres", "sonar", "copper", "plums")


@dataclass
class Track:
    """Samples of one quantity, in the order of the turns."""

    name: str
    read: Callable[[], float]
    values: list[float] = field(default_factory=list)

    def deciles(self) -> tuple[float, float]:
        """Median of the first and of the last tenth."""
        tenth = max(1, len(self.values) // 10)
        return statistics.median(self.values[:tenth]), statistics.median(self.values[-tenth:])

    def slope(self, turns_between: float) -> float:
        """Least squares over what follows the warm-up, per thousand turns."""
        values = self.values[int(len(self.values) * WARM_UP) :]
        if len(values) < 2:
            return 0.0
        line = statistics.linear_regression([place * turns_between for place in range(len(values))], values)
        return line.slope * 1000


def sentence(turn: int) -> str:
    words = {"place": PLACES[turn // 200 % len(PLACES)], "name": NAMES[turn // 7 % len(NAMES)]}
    return SAID[turn % len(SAID)].format(**words, thing=THINGS[turn % len(THINGS)], turn=turn)


def tracks(worker: psutil.Process, home: Path) -> list[Track]:
    host = psutil.Process()

    def children_bytes() -> float:
        return sum(child.memory_info().rss for child in worker.children(recursive=True))

    def log_bytes() -> float:
        return sum(path.stat().st_size for path in (home / "logs").iterdir())

    return [
        Track("worker resident (MiB)", lambda: worker.memory_info().rss / 2**20),
        Track("worker descriptors", worker.num_fds),
        Track("worker threads", worker.num_threads),
        Track("worker's children", lambda: len(worker.children(recursive=True))),
        Track("worker's children, resident (MiB)", lambda: children_bytes() / 2**20),
        Track("host resident (MiB)", lambda: host.memory_info().rss / 2**20),
        Track("host descriptors", host.num_fds),
        Track("host threads", host.num_threads),
        Track("logs (KiB)", lambda: log_bytes() / 1024),
    ]


class Soak:
    def __init__(self, folder: Path, turns: int) -> None:
        self._turns = turns
        self._home = folder / "hermes" / "memory_tencentdb"
        self._provider = TencentDBMemoryProvider()
        self._folder = folder
        self.captures_ms: list[float] = []
        self.recalls_ms: list[float] = []
        self.tracks: list[Track] = []

    def run(self) -> dict[str, Any]:
        """Returns the worker's status at the end, everything done."""
        self._provider.initialize("soak-0", hermes_home=str(self._folder / "hermes"), platform="cli")
        link = self._provider._link
        assert link is not None
        if not link.wait_ready(READY_SECONDS):
            raise SystemExit(f"no worker: {link.reason}")
        pid = int(json.loads((self._home / "worker.json").read_text(encoding="utf-8"))["pid"])
        self.tracks = tracks(psutil.Process(pid), self._home)
        try:
            for turn in range(self._turns):
                self._take(turn)
            self._await_outbox(link)
            link.ask(FLUSH, {"wait_seconds": FLUSH_SECONDS}, FLUSH_SECONDS + 10)
            self._sample()
            status = link.ask(STATUS, {}, 10, method="GET")
            status["same_worker"] = status["worker"]["pid"] == pid
            return status
        finally:
            self._provider.shutdown()
            _end(pid)

    def _await_outbox(self, link: Link) -> None:
        """On a busy machine a turn that is not taken at once goes there, and all later ones behind it."""
        until = time.monotonic() + FLUSH_SECONDS
        while link.outbox.pending() and time.monotonic() < until:
            link.wake()
            time.sleep(0.5)

    def _take(self, turn: int) -> None:
        session = f"soak-{turn // SESSION_TURNS}"
        self._provider.on_turn_start(turn, "")
        if turn % RECALL_EVERY == 0:
            question = f"what do you know about {NAMES[turn % len(NAMES)]} and {THINGS[turn % len(THINGS)]}?"
            self.recalls_ms.append(_timed(lambda: self._provider.prefetch(question, session_id=session)))
        text = sentence(turn)
        self.captures_ms.append(_timed(lambda: self._provider.sync_turn(text, f"Noted, {turn}.", session_id=session)))
        if turn % max(1, self._turns // SAMPLES) == 0:
            self._sample()
            print(f"{turn:6} turns", *(f"{track.values[-1]:.0f}" for track in self.tracks), file=sys.stderr)

    def _sample(self) -> None:
        for track in self.tracks:
            track.values.append(float(track.read()))


def _end(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        worker = psutil.Process(pid)
        worker.terminate()
        psutil.wait_procs([worker], LEAVE_SECONDS)


def _timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1000


def _deciles_of(samples: list[float]) -> str:
    tenth = max(1, len(samples) // 10)
    return f"{statistics.median(samples[:tenth]):.2f} -> {statistics.median(samples[-tenth:]):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--embedding", help="TDAI_EMBEDDING_PROVIDER of the worker: `none` leaves vectors out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mts-") as name:
        folder = Path(name)
        (folder / "run").mkdir(mode=0o700)
        (folder / "hermes").mkdir()
        os.environ |= {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "worker")]),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "HERMES_HOME": str(folder / "hermes"),
            "MEMORY_TENCENTDB_ROOT": str(folder / "root"),
        }
        if options.embedding:
            os.environ["TDAI_EMBEDDING_PROVIDER"] = options.embedding
        soak, begun = Soak(folder, options.turns), time.monotonic()
        status = soak.run()
        seconds = time.monotonic() - begun
        between = max(1, options.turns // SAMPLES)
    rows: list[tuple[str, object]] = [("turns, seconds", f"{options.turns}, {seconds:.0f}")]
    figures: dict[str, Any] = {"turns": options.turns, "seconds": round(seconds), "state": status["state"]}
    for track in soak.tracks:
        first, last = track.deciles()
        slope = track.slope(between)
        rows.append((track.name, f"{first:.1f} -> {last:.1f}, {slope:+.2f} per 1000 turns"))
        figures[track.name] = {"first": round(first, 1), "last": round(last, 1), "slope": round(slope, 3)}
    rows.append(("capture, median of first and last tenth (ms)", _deciles_of(soak.captures_ms)))
    rows.append(("recall, median of first and last tenth (ms)", _deciles_of(soak.recalls_ms)))
    kept = status["counts"]["turns"] == options.turns and status["same_worker"]
    rows.append(("kept", f"{status['counts']}, {'one worker' if status['same_worker'] else 'ANOTHER WORKER'}"))
    publish("soak", rows, figures | {"counts": status["counts"], "kept": kept})
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
