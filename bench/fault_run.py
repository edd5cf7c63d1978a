"""One run of the kill matrix: a home of its own, a fault that fires once, a recovery without faults, and the checks."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

import fake_openai
from bench.fault_checks import Findings, check_home
from memory_tencentdb.faults import MARK_VARIABLE, VARIABLE
from processes import FAST_PIPELINE, ROOT

STAND_IN = ROOT / "bench" / "stand_in"
PART_SECONDS = 60
LEAVE_SECONDS = 12
DESCRIPTORS = 48
"""Of a worker at rest: the database for one writer and a few readers, the socket, kept connections, logs."""


@dataclass(frozen=True)
class Plan:
    """What one run does. `fault` is what MEMORY_TENCENTDB_FAULT holds in the armed part."""

    fault: str
    seed: int
    threads: int = 2
    turns: int = 4
    wait_seconds: float = 6.0  # how long the armed part waits for everything to be done
    flush_parked: bool = False  # in the recovery: also what was given up
    real_litellm: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)


class FaultRun:
    """`endpoint` is the run's own model and embedder, so that a scenario can make it fail. With `keep_unclean` the home
    of a run with findings stays for a person to look at."""

    keep_unclean = False

    def __init__(self, plan: Plan, endpoint: fake_openai.FakeEndpoint) -> None:
        self.plan, self.endpoint = plan, endpoint
        self.folder = Path(tempfile.mkdtemp(prefix="mtf-"))
        self.home = self.folder / "hermes" / "memory_tencentdb"
        self.data_dir = self.home / "data"
        self.findings = Findings()
        self._prepare()

    @property
    def fired(self) -> bool:
        return (self.folder / "fired").exists()

    def run(self) -> Findings:
        self.drive("armed", self.plan.fault)
        self.drive("after", "")
        self.end()
        return self.findings

    def drive(self, part: str, fault: str) -> None:
        """Runs one part in a process of its own; a kill of that process by its fault is no finding."""
        process = self.start_driver(part, fault)
        try:
            code = process.wait(PART_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.findings.inconsistent.append(f"the {part} part did not end within {PART_SECONDS} s")
            return
        if code and not (code == -signal.SIGKILL and self.fired and part == "armed"):
            self.findings.inconsistent.append(f"the {part} part ended with {code}: {self._errors()}")

    def start_driver(self, part: str, fault: str) -> subprocess.Popen[bytes]:
        facts = {"folder": str(self.folder), "part": part, "seed": self.plan.seed, "threads": self.plan.threads}
        facts |= {"turns": self.plan.turns if part == "armed" else 1, "wait_seconds": self.plan.wait_seconds}
        facts |= {"flush_parked": self.plan.flush_parked and part == "after"}
        path = self.folder / f"{part}.json"
        path.write_text(json.dumps(facts), encoding="utf-8")
        with (self.folder / "driver.err").open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-c", "from bench.fault_driver import main; main()", str(path)],
                env=self._environment() | ({VARIABLE: fault} if fault else {}),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )

    def end(self) -> None:
        """Stops the worker as a user would, then looks at everything it leaves behind."""
        self._check_worker()
        self._stop_worker()
        self._check_processes()
        check_home(self.data_dir, self.home / "outbox", self._acknowledged(), self.findings)
        self._check_report()

    def remove(self) -> None:
        for process in self.processes():
            process.kill()
        if self.keep_unclean and not self.findings.clean:
            print(f"kept: {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self) -> list[psutil.Process]:
        """Everything that was started in this run and still lives, whoever started it."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("XDG_RUNTIME_DIR") == str(self.folder / "run"):  # a zombie has none
                    found.append(process)
        return found

    def worker(self) -> psutil.Process | None:
        with suppress(OSError, ValueError, psutil.Error):
            return psutil.Process(json.loads((self.home / "worker.json").read_text(encoding="utf-8"))["pid"])
        return None

    # ------------------------------------------------------------------------------------------------ inside

    def _prepare(self) -> None:
        self.home.mkdir(parents=True)
        (self.folder / "run").mkdir(mode=0o700)
        config: dict[str, Any] = {
            "llm": {"baseUrl": self.endpoint.url, "model": "fake-model", "apiKey": "k", "timeoutMs": 10_000},
            "memory": {
                "timezone": "UTC",
                "pipeline": FAST_PIPELINE,
                "embedding": {
                    "provider": "openai",
                    "baseUrl": self.endpoint.url,
                    "apiKey": "k",
                    "model": "fake-emb",
                    "dimensions": 64,
                },
            },
        }
        (self.home / "config.json").write_text(json.dumps(_merged(config, self.plan.config)), encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("TDAI_", "MEMORY_TENCENTDB_"))}
        stand_in = [] if self.plan.real_litellm else [str(STAND_IN)]
        return kept | {
            "PYTHONPATH": os.pathsep.join([*stand_in, str(ROOT), str(ROOT / "worker"), str(ROOT / "tests")]),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "HERMES_HOME": str(self.folder / "hermes"),
            "MEMORY_TENCENTDB_ROOT": str(self.folder / "root"),
            "MEMORY_TENCENTDB_IDLE_SECONDS": "120",
            "MEMORY_TENCENTDB_STUCK_SECONDS": "8",
            MARK_VARIABLE: str(self.folder / "fired"),
        }

    def _acknowledged(self) -> list[str]:
        path = self.folder / "acknowledged"
        return path.read_text(encoding="ascii").split() if path.exists() else []

    def _check_worker(self) -> None:
        worker = self.worker()
        if worker is None:
            self.findings.inconsistent.append("no worker after the recovery")
            return
        count = worker.num_fds()
        if count > DESCRIPTORS:
            self.findings.leaked.append(f"the worker holds {count} descriptors")
        gone = [file.path for file in worker.open_files() if file.path.endswith(" (deleted)")]
        if gone:
            self.findings.leaked.append(f"the worker holds deleted files: {gone[:3]}")

    def _stop_worker(self) -> None:
        worker = self.worker()
        if worker is not None:
            with suppress(psutil.Error):
                worker.terminate()
                until = time.monotonic() + LEAVE_SECONDS
                while worker.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
                    time.sleep(0.01)  # not our child: who adopted it may take its time to reap it

    def _check_processes(self) -> None:
        until = time.monotonic() + 2
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.02)
        if left:
            self.findings.leaked.append(f"still running: {[' '.join(process.cmdline()[-3:]) for process in left]}")

    def _check_report(self) -> None:
        try:
            report = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            self.findings.inconsistent.append(f"the recovery did not report: {self._errors()}")
            return
        if not report["rested"] or report["waiting"]:
            self.findings.inconsistent.append(f"not at rest: {report['waiting']} turns wait, {report['reason']!r}")
        state = report["status"].get("state")
        if state != "ok":
            reasons = [reason["code"] for reason in report["status"].get("reasons", [])]
            self.findings.inconsistent.append(f"state {state} after the recovery: {reasons}")

    def _errors(self) -> str:
        path = self.folder / "driver.err"
        return path.read_text(encoding="utf-8", errors="replace")[-800:] if path.exists() else ""


def fault_text(point: str, seed: int) -> str:
    """The fault of one seed: at which passage of the point, and, for a part of the seeds, how many milliseconds later
    the kill comes, so that it also falls between the points."""
    dice = random.Random(f"{point} {seed}")
    passage = dice.randint(1, PASSAGES.get(point, 1))
    later = f":{dice.uniform(0.1, 20):.1f}" if seed % 5 == 4 else ""
    return f"{point}:kill:{passage}{later}"


PASSAGES = {
    "outbox.before_append": 3,
    "outbox.before_sync": 3,
    "outbox.after_append": 3,
    "outbox.delivered": 3,
    "client.sent": 8,
    "request.received": 8,
    "turn.before_commit": 7,
    "turn.after_commit": 7,
    "capture.before_reply": 7,
    "job.leased": 5,
    "model.before_call": 6,
    "lane.called": 6,
    "lane.answered": 6,
    "model.answered": 6,
    "atoms.before_commit": 3,
    "atoms.after_commit": 3,
    "scenes.before_commit": 2,
    "scenes.after_commit": 2,
    "vectors.got": 3,
    "vectors.before_commit": 3,
    "vectors.after_commit": 3,
    "file.announced": 2,
    "file.written": 4,
    "file.renamed": 4,
    "lines.before_append": 2,
    "lines.after_append": 2,
}
"""How often a run surely passes a point; once, where nothing is said."""


def _merged(base: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in more.items():
        merged[key] = _merged(merged.get(key, {}), value) if isinstance(value, Mapping) else value
    return merged
