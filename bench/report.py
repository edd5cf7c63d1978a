"""How every benchmark prints: the machine, a table, and one JSON line for scripts."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from importlib import metadata
from typing import Any


def machine() -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    versions = {name: metadata.version(name) for name in ("apsw", "numpy", "fastapi", "uvicorn", "pydantic", "rjieba")}
    return {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
        "commit": commit.stdout.strip() or "uncommitted",
        "versions": versions,
    }


def percentiles(samples: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99 of samples in milliseconds."""
    ordered = sorted(samples)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]  # noqa: E731
    return {"p50": round(statistics.median(ordered), 3), "p95": round(at(0.95), 3), "p99": round(at(0.99), 3)}


def publish(name: str, rows: Sequence[tuple[str, object]], figures: dict[str, Any]) -> None:
    width = max(len(label) for label, _ in rows)
    print(f"{name} on {json.dumps(machine())}")
    for label, value in rows:
        print(f"  {label.ljust(width)}  {value}")
    print("BENCH " + json.dumps({"bench": name, "machine": machine(), **figures}))
