"""A worker that was started before an upgrade goes on running and does not know newer commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_tencentdb_worker.cli.connect import WorkerClient
from memory_tencentdb_worker.cli.exits import RefusedError
from processes import WorkerProcess


def test_a_command_that_an_older_worker_does_not_know_says_restart(tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path / "home")
    worker.start()
    try:
        client = WorkerClient(Path(worker.endpoint["socket"]))
        with pytest.raises(RefusedError, match=r"older than this command.*restart"):
            client.get("/v1/of-a-later-version")
        with pytest.raises(RefusedError) as unknown:
            client.get("/v1/why/m_0000000000000000")
        assert "older" not in str(unknown.value)
    finally:
        worker.stop()
