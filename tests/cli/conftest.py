"""The command line against one real worker of the session, in a home of its own, without a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import CommandLine
from processes import FAST_PIPELINE, WorkerProcess


@pytest.fixture(scope="session")
def worker_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a running worker, offline, with a pipeline that does not wait."""
    worker = WorkerProcess(tmp_path_factory.mktemp("cli") / "home", {"memory": {"pipeline": FAST_PIPELINE}})
    worker.start()
    yield worker.home
    worker.stop()


@pytest.fixture(scope="session")
def cli(worker_home: Path) -> CommandLine:
    """The command line beside the running worker."""
    return CommandLine(worker_home)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[CommandLine]:
    """The command line in a home without a worker; one that a test starts is stopped at the end."""
    line = CommandLine(tmp_path / "home")
    yield line
    line.at_home("stop")
