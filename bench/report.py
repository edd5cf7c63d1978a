"""How every benchmark prints: the machine, a table, and one JSON line for scripts."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self


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


class Artefacts:
    """One JSON line for each single answer, so that a figure can be looked into; nothing without a file."""

    def __init__(self, path: Path | None) -> None:
        self._file: IO[str] | None = path.open("x", encoding="utf-8") if path else None

    def add(self, **row: Any) -> None:
        if self._file is not None:
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
