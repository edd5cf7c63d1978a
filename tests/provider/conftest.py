from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from memory_tencentdb import launch
from memory_tencentdb.holder import find_holder
from memory_tencentdb.provider import TencentDBMemoryProvider
from provider_stub import load_stub

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Hermes home and a runtime directory of the test's own, short enough for sockets; no worker can be found."""
    base = Path(tempfile.mkdtemp(prefix="mt-"))
    (base / "run").mkdir(mode=0o700)
    (base / "hermes").mkdir()
    for name in list(os.environ):
        if name.startswith(("TDAI_", "MEMORY_TENCENTDB_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base / "run"))
    monkeypatch.setenv("HERMES_HOME", str(base / "hermes"))
    monkeypatch.setenv("MEMORY_TENCENTDB_ROOT", str(base / "root"))
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", f"{shlex.quote(sys.executable)} -c pass")
    yield base
    _end_workers(base)
    shutil.rmtree(base, ignore_errors=True)


def _end_workers(base: Path) -> None:
    for starts in base.rglob("starts"):
        for pid in starts.read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
            _collect(int(pid))


def _collect(pid: int) -> None:
    """Takes leave of a child of this process; else its Popen complains that it is still running when Python ends."""
    with suppress(psutil.Error):
        if psutil.Process(pid).ppid() == os.getpid():
            deadline = time.monotonic() + 2
            while psutil.pid_exists(pid) and time.monotonic() < deadline:
                launch.collect_children()
                time.sleep(0.01)


@pytest.fixture
def home(places: Path) -> Path:
    directory = places / "hermes" / "memory_tencentdb"
    directory.mkdir(mode=0o700)
    return directory


@pytest.fixture
def stub(home: Path) -> Iterator[Any]:
    """A stub worker that already listens when the provider comes."""
    worker = load_stub().StubWorker(home).start()
    yield worker
    with suppress(OSError):
        worker.stop()


@pytest.fixture
def real_worker(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Providers start the real worker, which is ended with the test."""
    source = os.pathsep.join([str(ROOT), str(ROOT / "worker")])
    command = ["/usr/bin/env", f"PYTHONPATH={source}", sys.executable, "-m", "memory_tencentdb_worker", "run"]
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", shlex.join(command))
    monkeypatch.setenv("MEMORY_TENCENTDB_IDLE_SECONDS", "60")
    yield
    holder = find_holder(home / "data")
    if holder is not None:
        os.kill(holder.pid, signal.SIGKILL)
        _collect(holder.pid)


@pytest.fixture
def make_provider(places: Path) -> Iterator[Callable[..., TencentDBMemoryProvider]]:
    made: list[TencentDBMemoryProvider] = []

    def make(session_id: str = "s1", **facts: Any) -> TencentDBMemoryProvider:
        provider = TencentDBMemoryProvider()
        provider.initialize(session_id, **({"platform": "cli", "hermes_home": str(places / "hermes")} | facts))
        made.append(provider)
        return provider

    yield make
    for provider in made:
        provider.shutdown()
