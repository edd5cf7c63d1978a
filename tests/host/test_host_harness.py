"""The host's conformance harness, where it lies beside the checkout: every check of every mode passes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

ROOT = Path(__file__).resolve().parents[2]
HARNESS = ROOT.parent / "shared" / "tools" / "hermes" / "host_harness.py"


@pytest.mark.parametrize("mode", ["host", "agent", "cli", "cmds"])
def test_every_check_of_the_harness_passes(host: Any, mode: str) -> None:
    if not HARNESS.is_file():
        pytest.skip("the conformance harness lies outside this repository; the other host tests need nothing of it")
    environment = host.environment()
    command = [host.python, str(HARNESS), mode, str(ROOT / "memory_tencentdb"), "--out", str(host.base / "out")]
    command += ["--env", "MEMORY_TENCENTDB_IDLE_SECONDS=2"]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)
    assert finished.returncode == 0, finished.stdout[-6000:] + finished.stderr[-2000:]
    assert "0 failed" in finished.stdout
