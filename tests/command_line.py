"""Runs `memory-tencentdb` as a process of its own. For tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import ROOT

FOREIGN = ("TDAI_DATA_DIR", "HERMES_HOME", "MEMORY_TENCENTDB_HOME", "TDAI_GATEWAY_CONFIG")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


@dataclass(frozen=True)
class CommandLine:
    """Runs `memory-tencentdb` as a process of its own, for one home."""

    home: Path

    def environment(self, **env: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        path = os.pathsep.join([str(ROOT), str(ROOT / "worker")])
        ours = {"MEMORY_TENCENTDB_ROOT": str(self.home / "root"), "TDAI_EMBEDDING_PROVIDER": "none"}
        return {**kept, "PYTHONPATH": path, **ours, **env}

    def __call__(self, *words: str, timeout: float = 60, **env: str) -> Ran:
        command = [sys.executable, "-m", "memory_tencentdb_worker", *words]
        done = subprocess.run(command, check=False, env=self.environment(**env), capture_output=True, timeout=timeout)
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def at_home(self, *words: str, timeout: float = 60, **env: str) -> Ran:
        return self(*words, "--home", str(self.home), timeout=timeout, **env)
