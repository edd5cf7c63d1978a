"""The promise, through the real `hermes chat`: what one process is told, the next one knows, and where it is from."""

from __future__ import annotations

import importlib.util
import re
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.host

FACT = "My dog is called Bramble and she is afraid of umbrellas."
QUESTION = "Which umbrellas should I buy with my dog in mind?"


def load_endpoint() -> ModuleType:
    spec = importlib.util.spec_from_file_location("host_chat_endpoint", Path(__file__).with_name("chat_endpoint.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def recalled(body: dict[str, Any]) -> str:
    """What the last user message holds between the host's memory fences."""
    text = [str(message["content"]) for message in body["messages"] if message["role"] == "user"][-1]
    found = re.search(r"<memory-context>(.*)</memory-context>", text, re.DOTALL)
    return found.group(1) if found else ""


def test_a_fact_told_to_one_process_reaches_the_model_in_the_next_one(host: Any) -> None:
    with load_endpoint().running() as endpoint:
        host.use_model(endpoint.url)
        assert "Noted." in host.hermes("chat", "-Q", "-q", FACT)
        host.end_worker(signal.SIGKILL)  # and the worker in between does not live to see it
        host.hermes("chat", "-Q", "-q", QUESTION)
        first, last = endpoint.chats()[0], endpoint.chats()[-1]
    assert recalled(first) == ""
    memory = recalled(last)
    assert "Bramble" in memory
    (known,) = set(re.findall(r"\b(?:l0|m)_[0-9a-f]{16}\b", memory))
    why = host.worker("why", known)
    assert [message["text"] for message in why["messages"]] == [FACT]
    assert all(message["hash_ok"] for message in why["messages"])


def test_a_host_without_a_worker_keeps_its_turn_for_the_next_one(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with load_endpoint().running() as endpoint:
        host.use_model(endpoint.url)
        broken = host.environment() | {"MEMORY_TENCENTDB_WORKER_CMD": "/nowhere/python run"}
        whole = host.environment()
        host.environment = lambda: broken
        host.hermes("-z", FACT)
        assert len(list((host.home / "outbox").glob("*.jsonl"))) == 1
        host.environment = lambda: whole
        host.hermes("chat", "-Q", "-q", "How are you today, my friend?")
        host.hermes("chat", "-Q", "-q", QUESTION)
        assert "Bramble" in recalled(endpoint.chats()[-1])
    assert not list((host.home / "outbox").glob("*.jsonl"))
