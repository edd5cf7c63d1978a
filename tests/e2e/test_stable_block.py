"""The system block of a session keeps its bytes while the memory beneath it changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_tencentdb.provider import TencentDBMemoryProvider
from processes import FAST_PIPELINE, WorkerProcess

TURNS = 50


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    process = WorkerProcess(tmp_path / "home", {"memory": {"pipeline": FAST_PIPELINE}})
    process.start()
    yield process
    process.stop()


def provider_of(worker: WorkerProcess, session: str) -> TencentDBMemoryProvider:
    provider = TencentDBMemoryProvider()
    provider.initialize(session, hermes_home=str(worker.home.parent / "hermes"), platform="cli")
    return provider


def test_the_system_block_is_byte_identical_over_fifty_turns(
    worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TDAI_DATA_DIR", worker.endpoint["data_dir"])
    worker.capture("My name is Quillon Vastergard and I work as a lighthouse keeper.", session="yesterday")
    assert worker.flush()["idle"]
    provider = provider_of(worker, "today")
    try:
        first = provider.system_prompt_block()
        assert "Vastergard" in first
        for number in range(TURNS):
            provider.sync_turn(
                f"My friend number {number} is called Name{number} and I live in Town{number}.", "Noted."
            )
            if number % 10 == 9:
                assert worker.flush()["idle"]
            assert provider.system_prompt_block() == first
            provider.prefetch(f"what is friend {number} called?")
    finally:
        provider.shutdown()
    counts = worker.get("/v1/status").json()["counts"]
    assert counts["atoms"] > TURNS / 2
    tomorrow = provider_of(worker, "tomorrow")
    try:
        changed = tomorrow.system_prompt_block()
    finally:
        tomorrow.shutdown()
    assert changed != first
    assert "Vastergard" in changed
