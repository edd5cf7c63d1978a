"""A home that a real worker has filled, and `memory-tencentdb doctor` on copies of it. For tests."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import apsw

from memory_tencentdb_worker.cli.main import main
from planted import Turn, tell
from processes import FAST_PIPELINE, WorkerProcess


def fill_home(home: Path, said: Sequence[Turn], llm: dict[str, str] | None = None) -> WorkerProcess:
    """A running worker that has read these turns through all layers."""
    config: dict[str, Any] = {"memory": {"pipeline": FAST_PIPELINE}}
    if llm:
        config["llm"] = llm
    worker = WorkerProcess(home, config)
    worker.start()
    tell(worker, said)
    return worker


def examine(home: Path, *more: str) -> dict[str, Any]:
    """The report of `doctor --json`, with the exit code that belongs to it."""
    said = io.StringIO()
    with redirect_stdout(said):
        code = main(["doctor", "--json", "--home", str(home), *more])
    report: dict[str, Any] = json.loads(said.getvalue())
    assert code == (0 if report["clean"] else 6)
    return report


def codes(report: dict[str, Any]) -> set[str]:
    """Without notes."""
    return {one["code"] for one in report["findings"] if one["severity"] != "note"}


@contextmanager
def database(home: Path) -> Iterator[apsw.Connection]:
    """As somebody else would open it: without foreign keys."""
    with closing(apsw.Connection(str(home / "data" / "memory.db"))) as connection:
        yield connection
