"""Faults other than a kill: frozen and slow workers, lost replies, a full disk, clocks that jump, models and embedders
that misbehave. Each is run like a fault point, with the same recovery and the same checks."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil

import fake_openai
from bench.fault_checks import Findings
from bench.fault_run import FaultRun, Plan
from memory_tencentdb.client import Client
from memory_tencentdb.errors import ProviderError
from memory_tencentdb.protocol import HEALTH

Scenario = Callable[[int], tuple[bool, Findings]]

DAY_SECONDS = 86_400
HANG_MS = 1_000
FOR_EVER_MS = 600_000
THAW_SECONDS = 1.5
TMPFS_KIB = 640


def _faulted(fault: str, first: int, last: int) -> Scenario:
    """`{n}` stands for a passage between `first` and `last`, by the seed. The first turns go through the outbox; what
    is to happen to a request of the host has to come later."""

    def run(seed: int) -> tuple[bool, Findings]:
        passage = random.Random(f"{fault} {seed}").randint(first, last)
        with fake_openai.running() as endpoint:
            return _finish(FaultRun(Plan(fault.format(n=passage), seed, turns=6), endpoint))

    return run


def _endpoint_faults(*faults: tuple[str, str, dict[str, Any]]) -> Scenario:
    """The endpoint misbehaves for the whole armed part (mode, task, parameters) and is well again in the recovery."""

    def run(seed: int) -> tuple[bool, Findings]:
        config = {"llm": {"timeoutMs": HANG_MS}, "memory": {"embedding": {"timeoutMs": HANG_MS}}}
        with fake_openai.running() as endpoint:
            run = FaultRun(Plan("", seed, config=config, wait_seconds=3.0, flush_parked=True), endpoint)
            for mode, task, parameters in faults:
                endpoint.fail(mode, -1, task, **parameters)
            run.drive("armed", "")
            fired = bool(endpoint.requests)
            endpoint.heal()
            return _finish(run, fired=fired, armed=False)

    return run


def _thawed(seed: int) -> tuple[bool, Findings]:
    """The worker is stopped in the middle of the captures and goes on after a while."""
    with fake_openai.running() as endpoint:
        run = FaultRun(Plan("", seed), endpoint)
        driver = run.start_driver("armed", "")
        stopped = _stop_worker_of(run, driver, random.Random(seed).random() * 0.2)
        time.sleep(THAW_SECONDS)
        if stopped is not None:
            with suppress(psutil.Error):
                stopped.resume()
        driver.wait()
        return _finish(run, fired=stopped is not None, armed=False)


def _stop_worker_of(run: FaultRun, driver: subprocess.Popen[bytes], later_seconds: float) -> psutil.Process | None:
    until = time.monotonic() + 10
    while time.monotonic() < until and driver.poll() is None:
        worker = run.worker() if _serves(run) else None
        if worker is not None:
            time.sleep(later_seconds)
            with suppress(psutil.Error):
                worker.suspend()
                return worker
        time.sleep(0.01)
    return None


def _serves(run: FaultRun) -> bool:
    """Before that, a worker may be at work on its database for minutes, and is rightly given that time."""
    with suppress(OSError, ValueError, ProviderError):
        socket = Path(json.loads((run.home / "worker.json").read_text(encoding="utf-8"))["socket"])
        with closing(Client(lambda: socket)) as client:
            return bool(client.get(HEALTH, 1.0))
    return False


def _full_disk(seed: int) -> tuple[bool, Findings]:
    """The data directory lies on a small file system that fills up in the middle, and is freed for the recovery."""
    with fake_openai.running() as endpoint:
        run = FaultRun(Plan("", seed), endpoint)
        run.data_dir.mkdir(mode=0o700)
        size = TMPFS_KIB + 16 * (seed % 8)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k,mode=0700", "tmpfs", str(run.data_dir)]
        if os.getuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
            run.findings.inconsistent.append("a full disk needs the right to mount a tmpfs")
            return _finish(run, armed=False)
        try:
            run.drive("armed", "")
            fired = _is_full(run)
            subprocess.run(["mount", "-o", "remount,size=64m", str(run.data_dir)], check=True)
            return _finish(run, fired=fired, armed=False)
        finally:
            subprocess.run(["umount", "-l", str(run.data_dir)], check=False, capture_output=True)


def _is_full(run: FaultRun) -> bool:
    log = run.home / "logs" / "worker.log"
    return log.exists() and "no space left" in log.read_text(encoding="utf-8").lower()


def _frozen_for_good(seed: int) -> tuple[bool, Findings]:
    """The worker is stopped and never goes on: somebody has to replace it."""
    with fake_openai.running() as endpoint:
        run = FaultRun(Plan("", seed, wait_seconds=3.0), endpoint)
        driver = run.start_driver("armed", "")
        stopped = _stop_worker_of(run, driver, random.Random(seed).random() * 0.2)
        driver.wait()
        outcome = _finish(run, fired=stopped is not None, armed=False)
        if stopped is not None:
            with suppress(psutil.Error):
                stopped.send_signal(signal.SIGKILL)
        return outcome


def _finish(run: FaultRun, *, fired: bool | None = None, armed: bool = True) -> tuple[bool, Findings]:
    """The armed part unless it is over, the recovery, the checks, and an end without traces."""
    try:
        if armed:
            run.drive("armed", run.plan.fault)
        run.drive("after", "")
        run.end()
        return run.fired if fired is None else fired, run.findings
    finally:
        run.remove()


_LLM = "llm"
_EMBEDDINGS = "embeddings"
SCENARIOS: dict[str, Scenario] = {
    "reply lost: the connection breaks after the request": _faulted("client.sent:error:{n}", 6, 16),
    "reply lost: the answer comes too late": _faulted("capture.before_reply:delay:{n}:700", 6, 10),
    "commit slower than the caller waits": _faulted("turn.before_commit:delay:{n}:700", 6, 10),
    "a write stands still": _faulted(f"turn.before_commit:delay:{{n}}:{FOR_EVER_MS}", 6, 10),
    "worker frozen for a while": _thawed,
    "worker frozen for good": _frozen_for_good,
    "disk full": _full_disk,
    "clock jumps 3 days ahead": _faulted(f"request.received:clock:{{n}}:{3 * DAY_SECONDS}", 2, 8),
    "clock jumps 3 days back": _faulted(f"request.received:clock:{{n}}:{-3 * DAY_SECONDS}", 2, 8),
    "model: 429 with Retry-After": _endpoint_faults(("http", _LLM, {"status": 429, "retry_after": 3})),
    "model: 500": _endpoint_faults(("http", _LLM, {"status": 500})),
    "model: 402": _endpoint_faults(("http", _LLM, {"status": 402})),
    "model: hangs": _endpoint_faults(("hang", _LLM, {"seconds": 30})),
    "model: connection cut": _endpoint_faults(("reset", _LLM, {})),
    "embedder: 429": _endpoint_faults(("http", _EMBEDDINGS, {"status": 429, "retry_after": 3})),
    "embedder: 401": _endpoint_faults(("http", _EMBEDDINGS, {"status": 401})),
    "embedder: hangs": _endpoint_faults(("hang", _EMBEDDINGS, {"seconds": 30})),
    "embedder: wrong width": _endpoint_faults(("wrong_dim", _EMBEDDINGS, {"dim": 32})),
    "model: malformed answers": _endpoint_faults(("malformed", _LLM, {})),
    "model: truncated answers": _endpoint_faults(("truncated", _LLM, {})),
    "model: empty answers": _endpoint_faults(("null_content", _LLM, {})),
    "embedder: not a number": _endpoint_faults(("nan", _EMBEDDINGS, {})),
}
"""By the name of their row."""
