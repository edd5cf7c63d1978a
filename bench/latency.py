"""What the agent feels: provider load, worker start, memory, and the times of capture and recall over the socket.

The baseline of every request time is /health over the same connection in the same run: the cost of the transport.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from bench.report import percentiles, publish
from processes import ROOT, WorkerProcess

LOAD = """
import importlib, sys, time
before = set(sys.modules)
started = time.perf_counter()
importlib.import_module("memory_tencentdb")
for name in {modules!r}:
    importlib.import_module("memory_tencentdb." + name)
print((time.perf_counter() - started) * 1000)
"""


class SocketConnection(http.client.HTTPConnection):
    """The provider's kind of client, so that the times are those the host pays."""

    def __init__(self, path: str) -> None:
        super().__init__("worker", timeout=30)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        self.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = self.getresponse()
        document: dict[str, Any] = json.loads(answer.read())
        if answer.status >= 300:
            raise RuntimeError(f"{path}: {answer.status} {document}")
        return document


def provider_load_ms(times: int = 20) -> float:
    """Median over fresh processes of importing every module of the provider."""
    modules = [path.stem for path in (ROOT / "memory_tencentdb").glob("*.py") if path.stem != "__init__"]
    code = LOAD.format(modules=modules)
    runs = [
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for _ in range(times)
    ]
    return statistics.median(float(run) for run in runs)


def timed(action: Callable[[int], object], times: int) -> list[float]:
    samples = []
    for number in range(times):
        started = time.perf_counter()
        action(number)
        samples.append((time.perf_counter() - started) * 1000)
    return samples


def sentence(number: int) -> str:
    """Distinct words spread over the store, a third of it Chinese, so that queries have few and many hits."""
    if number % 3 == 2:
        return f"我在项目{number % 97}里用代号word{number}记录了第{number}次会议，地点在杭州。"
    return f"I filed note {number} about project {number % 97} with the code word{number} and my colleague Ravi."


def rss_mib(pid: int) -> float:
    return round(psutil.Process(pid).memory_info().rss / 2**20, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000, help="turns in the store (default 1000)")
    parser.add_argument("--queries", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        quiet = {
            "memory": {
                "pipeline": {"everyNConversations": 1000000, "enableWarmup": False, "l1IdleTimeoutSeconds": 86400}
            }
        }
        worker = WorkerProcess(Path(folder) / "home", quiet)
        starts = []
        for _ in range(5):
            starts.append(worker.start())
            worker.stop()
        starts.append(worker.start())
        try:
            time.sleep(1)
            idle = rss_mib(worker.pid)
            connection = SocketConnection(worker.endpoint["socket"])
            capture = timed(
                lambda n: connection.ask(
                    "POST",
                    "/capture",
                    {
                        "user_content": sentence(n),
                        "assistant_content": "Noted.",
                        "session_key": f"s{n // 50}",
                        "turn_id": f"t{n}",
                    },
                ),
                options.rows,
            )
            health = timed(lambda _: connection.ask("GET", "/health"), options.queries)
            step = max(1, options.rows // options.queries)
            recall = timed(
                lambda n: connection.ask(
                    "POST",
                    "/recall",
                    {"query": f"what did I file under word{n * step} for project {n % 97}?", "session_key": "asking"},
                ),
                options.queries,
            )
            recall_zh = timed(
                lambda n: connection.ask(
                    "POST", "/recall", {"query": f"项目{n % 97}的会议在哪里？", "session_key": "asking"}
                ),
                options.queries,
            )
            loaded = rss_mib(worker.pid)
        finally:
            worker.stop()
    load_ms = provider_load_ms()
    base = percentiles(health)
    rows: list[tuple[str, object]] = [
        ("provider folder, import of all modules, median of 20 (ms)", round(load_ms, 1)),
        ("worker, spawn to first /health, median of 6 (s)", round(statistics.median(starts), 3)),
        ("worker resident, idle (MiB)", idle),
        (f"worker resident, segmenter loaded, {options.rows} turns (MiB)", loaded),
        ("/health round trip, the baseline (ms)", base),
        ("/capture (ms)", percentiles(capture)),
        ("/recall, English (ms)", percentiles(recall)),
        ("/recall, Chinese (ms)", percentiles(recall_zh)),
        ("/recall p50 as a multiple of the baseline", round(percentiles(recall)["p50"] / base["p50"], 1)),
    ]
    figures = {
        "rows": options.rows,
        "provider_load_ms": load_ms,
        "start_seconds": statistics.median(starts),
        "rss_idle_mib": idle,
        "rss_loaded_mib": loaded,
        "health_ms": base,
        "capture_ms": percentiles(capture),
        "recall_ms": percentiles(recall),
        "recall_zh_ms": percentiles(recall_zh),
    }
    publish("latency", rows, figures)


if __name__ == "__main__":
    main()
