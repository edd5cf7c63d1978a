from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb.provider import TencentDBMemoryProvider
from provider_stub import load_stub


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
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", f"{sys.executable} -c pass")
    yield base
    _end_workers(base)
    shutil.rmtree(base, ignore_errors=True)


def _end_workers(base: Path) -> None:
    for starts in base.rglob("starts"):
        for pid in starts.read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


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
