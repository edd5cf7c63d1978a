from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


class HostPlace:
    """A Hermes home with our provider in it, and the real `hermes` to run there."""

    def __init__(self, base: Path, python: str) -> None:
        self.base, self.python = base, python
        self.hermes_home = base / "hermes"
        self.home = self.hermes_home / "memory_tencentdb"
        (self.hermes_home / "plugins").mkdir(parents=True)
        (self.hermes_home / "plugins" / "memory_tencentdb").symlink_to(ROOT / "memory_tencentdb")
        (base / "run").mkdir(mode=0o700)

    def environment(self) -> dict[str, str]:
        foreign = ("TDAI_", "MEMORY_TENCENTDB_", "OPENAI_", "ANTHROPIC_", "OPENROUTER_", "HERMES_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        source = os.pathsep.join([str(ROOT), str(ROOT / "worker")])
        return kept | {
            "HERMES_HOME": str(self.hermes_home),
            "HERMES_DISABLE_LAZY_INSTALLS": "1",
            "XDG_RUNTIME_DIR": str(self.base / "run"),
            "MEMORY_TENCENTDB_ROOT": str(self.base / "root"),
            "MEMORY_TENCENTDB_IDLE_SECONDS": "30",
            "MEMORY_TENCENTDB_WORKER_CMD": shlex.join(
                ["/usr/bin/env", f"PYTHONPATH={source}", sys.executable, "-m", "memory_tencentdb_worker", "run"]
            ),
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def use_model(self, url: str) -> None:
        """JSON is YAML too."""
        config: dict[str, Any] = {
            "model": {"provider": "custom", "default": "fake-model", "base_url": url, "api_key": "sk-lab"},
            "memory": {"provider": "memory_tencentdb"},
            "security": {"allow_lazy_installs": False, "tirith_enabled": False},
        }
        config["model"]["context_length"] = 131072
        (self.hermes_home / "config.yaml").write_text(json.dumps(config))

    def hermes(self, *words: str) -> str:
        """Runs the real command and returns what it printed."""
        command = [str(Path(self.python).with_name("hermes")), *words]
        return self._run(command)

    def worker(self, *words: str) -> Any:
        """Runs one of the worker's own commands and returns its JSON."""
        command = shlex.split(self.environment()["MEMORY_TENCENTDB_WORKER_CMD"])[:-1]
        return json.loads(self._run([*command, *words, "--home", str(self.home), "--json"]))

    def _run(self, command: list[str]) -> str:
        finished = subprocess.run(
            command,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    def end_worker(self, kind: signal.Signals) -> None:
        """Signals the worker of this home, and waits until it is gone."""
        with suppress(FileNotFoundError, ProcessLookupError):
            pid = json.loads((self.home / "worker.json").read_text())["pid"]
            os.kill(pid, kind)
            until = time.monotonic() + 10
            while time.monotonic() < until and Path(f"/proc/{pid}").exists():
                time.sleep(0.02)


@pytest.fixture(scope="session")
def hermes_python() -> str:
    python = os.environ.get("HERMES_PYTHON")
    if not python or not Path(python).with_name("hermes").is_file():
        pytest.skip("THE REAL HOST IS NOT TESTED: HERMES_PYTHON does not name the python of a venv with hermes-agent")
    return python


@pytest.fixture
def host(hermes_python: str) -> Iterator[HostPlace]:
    base = Path(tempfile.mkdtemp(prefix="mt-host-"))
    place = HostPlace(base, hermes_python)
    yield place
    place.end_worker(signal.SIGTERM)
    shutil.rmtree(base, ignore_errors=True)
