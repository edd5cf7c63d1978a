"""Every route that `/openapi.json` describes, with inputs made from that description. Runs where the command
`schemathesis` is installed and MEMORY_TENCENTDB_PROPERTY_SECONDS says how long."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from processes import WorkerProcess

SECONDS = os.environ.get("MEMORY_TENCENTDB_PROPERTY_SECONDS", "")
COMMAND = shutil.which("schemathesis")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
APART = ("/v1/stop", "/v1/hello", "/v1/check/{part}")
"""The first two are not there over TCP, and the third asks the model."""


@pytest.mark.skipif(not SECONDS or COMMAND is None, reason="asked for by MEMORY_TENCENTDB_PROPERTY_SECONDS only")
@pytest.mark.parametrize("key", ["", "k-properties"])
def test_no_input_brings_an_error_of_the_server_or_an_answer_that_is_not_described(tmp_path: Path, key: str) -> None:
    assert COMMAND is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    worker = WorkerProcess(tmp_path / "home", {"server": {"port": port, "apiKey": key}})
    worker.start()
    try:
        (tmp_path / "openapi.json").write_text(worker.get("/openapi.json").text)
        words = [
            COMMAND,
            "run",
            "openapi.json",
            "--url",
            f"http://127.0.0.1:{port}",
            "-c",
            CHECKS,
            "--max-time",
            SECONDS,
        ]
        words += ["--phases", "examples,coverage,fuzzing", "--rate-limit", "90/s", "--continue-on-failure"]
        words += [word for path in APART for word in ("--exclude-path", path)]
        words += ["-H", f"Authorization: Bearer {key}"] if key else []
        ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=3600)
    finally:
        code = worker.stop()
    assert ran.returncode == 0, ran.stdout[-5000:]
    assert code == 0
