"""The provider beside a worker whose store is in trouble: turns wait in the outbox, host and model are told once."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb.protocol import STATUS
from memory_tencentdb.provider import TencentDBMemoryProvider
from memory_tencentdb.tools import CONVERSATION_SEARCH
from memory_tencentdb_worker.store.backups import back_up
from memory_tencentdb_worker.store.migrations import open_database
from small_disk import small_disk

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 25.0
Make = Callable[..., TencentDBMemoryProvider]


@pytest.fixture(autouse=True)
def real_worker(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    source = os.pathsep.join([str(ROOT), str(ROOT / "worker")])
    command = ["/usr/bin/env", f"PYTHONPATH={source}", sys.executable, "-m", "memory_tencentdb_worker", "run"]
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", shlex.join(command))
    monkeypatch.setenv("MEMORY_TENCENTDB_IDLE_SECONDS", "60")
    yield
    with suppress(FileNotFoundError, ProcessLookupError, ValueError):
        pid = int(json.loads((home / "worker.json").read_text())["pid"])
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def wait_for(condition: Callable[[], object], what: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.1)


def waiting(provider: TencentDBMemoryProvider) -> int:
    assert provider._link is not None
    return provider._link.outbox.pending()


def test_turns_of_a_full_disk_wait_in_the_outbox_and_host_and_model_are_told(
    home: Path, make_provider: Make, tmp_path: Path
) -> None:
    warnings: list[str] = []
    with small_disk(tmp_path / "disk") as disk:
        (home / "config.json").write_text(json.dumps({"data": {"baseDir": str(disk.place / "data")}}))
        provider = make_provider(warning_callback=warnings.append)
        assert provider._link is not None
        assert provider._link.wait_ready(20)
        provider.sync_turn("My dog is called Bramble.", "Noted.")
        disk.fill()
        for number in range(8):
            provider.sync_turn(f"Fact {number}: " + "x" * 40_000, "Noted.")
        assert waiting(provider) > 0
        state = provider._ask(STATUS, {}, 5, method="GET")
        assert state["state"] == "broken"
        found = json.loads(provider.handle_tool_call(CONVERSATION_SEARCH, {"query": "Bramble"}))
        assert found["total"] >= 1
        assert found["state"] == "broken"

        told: Any = make_provider("s2", warning_callback=warnings.append)
        assert told._link.wait_ready(20)
        block = told.system_prompt_block()
        assert "Long-term memory is degraded: no space left on" in block
        assert str(disk.place) in block
        assert len([line for line in block.splitlines() if "degraded" in line]) == 1
        assert [warning for warning in warnings if "no space left" in warning]
        assert len(warnings) <= 2  # once a provider

        disk.free()
        wait_for(lambda: provider._ask(STATUS, {}, 5, method="GET")["state"] in ("ok", "lagging"), "a good state")
        provider._link.wake()
        wait_for(lambda: not waiting(provider), "the outbox to be delivered")
        assert provider._ask(STATUS, {}, 5, method="GET")["counts"]["turns"] == 9
        for one in (provider, told):
            one.shutdown()
        os.kill(int(json.loads((home / "worker.json").read_text())["pid"]), signal.SIGTERM)
        wait_for(lambda: not (home / "worker.json").exists(), "the worker to leave the disk")


def test_a_disk_that_is_full_for_worker_and_outbox_alike_costs_no_turn(
    places: Path, make_provider: Make, tmp_path: Path
) -> None:
    """The outbox lies on the same disk as a rule: the space that it has reserved takes what comes."""
    with small_disk(tmp_path / "disk", "24m") as disk:
        home = disk.place / "memory_tencentdb"
        provider = make_provider(hermes_home=str(disk.place))
        link = provider._link
        assert link is not None
        assert link.wait_ready(20)
        provider.sync_turn("My dog is called Bramble.", "Noted.")
        wait_for((home / "outbox" / ".reserve").exists, "the reserve")
        disk.fill()
        for number in range(20):
            provider.sync_turn(f"Fact {number}: " + "x" * 20_000, "Noted.")
        assert waiting(provider) > 0
        assert not (home / "outbox" / ".reserve").exists()
        disk.free()
        link.wake()
        wait_for(lambda: not waiting(provider), "the outbox to be delivered")
        assert provider._ask(STATUS, {}, 5, method="GET")["counts"]["turns"] == 21
        link.wake()
        wait_for((home / "outbox" / ".reserve").exists, "a new reserve")
        provider.shutdown()
        os.kill(int(json.loads((home / "worker.json").read_text())["pid"]), signal.SIGTERM)
        wait_for(lambda: not (home / "worker.json").exists(), "the worker to leave the disk")


def test_a_damaged_store_is_no_crash_loop_and_loses_no_turn(home: Path, make_provider: Make) -> None:
    database = open_database(home / "data", 1_800_000_000_000)
    backup = back_up(database, 1_800_000_000_000)
    database.close()
    file = home / "data" / "memory.db"
    file.write_bytes(b"\0" * 100 + file.read_bytes()[100:])
    before = file.read_bytes()
    warnings: list[str] = []
    provider = make_provider(warning_callback=warnings.append)
    for number in range(5):
        provider.sync_turn(f"Fact number {number}.", "Noted.")
        provider.prefetch("what is fact number 2?")
    assert waiting(provider) == 5
    assert provider._link is not None
    assert "damaged" in provider._link.reason
    time.sleep(6)  # longer than the quiet time after a failed start
    provider.prefetch("what is fact number 3?")
    output = (home / "logs" / "worker.out.log").read_text()
    assert output.count("cannot start") == 1
    assert str(backup) in output
    assert len(warnings) == 1
    assert file.read_bytes() == before
