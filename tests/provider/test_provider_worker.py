"""The provider and the real worker, started by the provider itself as under the host."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb.protocol import STATUS
from memory_tencentdb.provider import TencentDBMemoryProvider
from memory_tencentdb.tools import CONVERSATION_SEARCH

pytestmark = pytest.mark.usefixtures("real_worker")

Make = Callable[..., TencentDBMemoryProvider]


def worker_pid(home: Path) -> int:
    return int(json.loads((home / "worker.json").read_text())["pid"])


def end_worker(home: Path, kind: signal.Signals) -> None:
    with suppress(FileNotFoundError, ProcessLookupError):
        pid = worker_pid(home)
        os.kill(pid, kind)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def started(provider: TencentDBMemoryProvider) -> TencentDBMemoryProvider:
    assert provider._link is not None
    assert provider._link.wait_ready(20)
    return provider


def counts(provider: TencentDBMemoryProvider) -> dict[str, int]:
    status = provider._ask(STATUS, {}, 5, method="GET")
    return dict(status["counts"])


def test_what_is_said_is_found_at_once_by_its_user_and_by_nobody_else(make_provider: Make) -> None:
    ada = started(make_provider("s1", user_id="ada"))
    ada.sync_turn("My favourite tea is Longjing.", "Noted.")
    ada.on_memory_write("add", "user", "Ada keeps bees", {"write_origin": "assistant_tool"})
    assert "Longjing" in ada.prefetch("which tea is my favourite?")
    eve = started(make_provider("s2", user_id="eve"))
    assert eve.prefetch("which tea is my favourite?") == ""
    found = json.loads(eve.handle_tool_call(CONVERSATION_SEARCH, {"query": "Longjing", "user_id": "ada"}))
    assert found["total"] == 0


def test_a_killed_worker_comes_back_with_every_turn_once(home: Path, make_provider: Make) -> None:
    provider = started(make_provider())
    provider.sync_turn("My dog is called Bramble.", "Noted.")
    end_worker(home, signal.SIGKILL)
    provider.sync_turn("My cat is called Nettle.", "Noted.")
    assert provider._link is not None
    until = time.monotonic() + 20
    while time.monotonic() < until and provider._link.outbox.pending():
        provider._link.wake()
        time.sleep(0.05)
    started(provider)
    assert counts(provider)["turns"] == 2
    assert "Nettle" in provider.prefetch("what is my cat called?")


def test_a_stopped_worker_costs_no_turn_and_little_time(home: Path, make_provider: Make) -> None:
    provider = started(make_provider())
    provider.sync_turn("My dog is called Bramble.", "Noted.")
    pid = worker_pid(home)
    os.kill(pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        assert provider.prefetch("what is my dog called?") == ""
        assert time.monotonic() - begun < 2.0
        begun = time.monotonic()
        provider.sync_turn("My cat is called Nettle.", "Noted.")
        assert time.monotonic() - begun < 0.2
    finally:
        os.kill(pid, signal.SIGCONT)
    provider.shutdown()
    again: Any = started(make_provider())
    until = time.monotonic() + 10
    while time.monotonic() < until and counts(again)["turns"] < 2:
        time.sleep(0.05)
    assert counts(again)["turns"] == 2
