"""What is too large, or cannot be read, costs itself and nothing behind it."""

from __future__ import annotations

import logging
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb import cli, protocol
from memory_tencentdb.errors import RequestRefused, SpawnFailed
from memory_tencentdb.outbox import Outbox
from memory_tencentdb.protocol import BODY_LIMIT_BYTES
from memory_tencentdb.provider import TencentDBMemoryProvider
from memory_tencentdb.supervisor import Supervisor
from memory_tencentdb.tools import MEMORY_SEARCH
from memory_tencentdb.turns import PIECE_CHARS, QUERY_CHARS, shorten_query, split_write

Make = Callable[..., TencentDBMemoryProvider]


def test_why_a_body_was_refused_while_it_was_sent_is_read(home: Path, real_worker: None) -> None:
    supervisor = Supervisor(home, threading.Event())
    supervisor.connect(None)
    body = {"user_content": "x" * (BODY_LIMIT_BYTES + 200_000), "assistant_content": "", "session_key": "s"}
    for _ in range(2):
        with pytest.raises(RequestRefused) as refused:
            supervisor.client.post(protocol.CAPTURE, body, 5)
        assert (refused.value.status, refused.value.code) == (413, "too_large")
    supervisor.client.close()


def test_a_line_that_is_too_large_does_not_hold_up_the_outbox(
    home: Path, real_worker: None, make_provider: Make
) -> None:
    waiting = Outbox(home / "outbox", nonce="old", created_ms=1)
    body = {"user_content": "x" * (BODY_LIMIT_BYTES + 1), "assistant_content": "", "session_key": "s", "turn_id": "t_1"}
    waiting.append("t_1", protocol.CAPTURE, body, 1)
    provider = make_provider()
    provider.sync_turn("My cat is called Fluffbird.", "Noted.")
    until = time.monotonic() + 20
    while waiting.pending() and time.monotonic() < until:
        time.sleep(0.05)
    assert waiting.pending() == 0
    assert "Fluffbird" in provider.handle_tool_call("memory_tencentdb_conversation_search", {"query": "Fluffbird"})


def test_a_huge_memory_write_travels_in_pieces_and_loses_nothing(stub: Any, make_provider: Make) -> None:
    provider = make_provider()
    assert provider._link is not None
    assert provider._link.wait_ready(5)
    text = "likes tea, " * 100_000
    provider.on_memory_write("replace", "user", text, metadata={"old_text": "likes coffee"})
    bodies = stub.bodies(protocol.MEMORY_WRITE)
    assert "".join(body["content"] for body in bodies) == text
    assert [body["action"] for body in bodies] == ["replace", *["add"] * (len(bodies) - 1)]
    assert len({body["write_id"] for body in bodies}) == len(bodies) > 1


def test_a_removal_is_one_request() -> None:
    assert split_write("remove", "x" * PIECE_CHARS * 2) == [("remove", "x" * PIECE_CHARS)]
    assert split_write("remove", "") == [("remove", "")]


def test_a_huge_question_is_asked_by_its_beginning_and_its_end(stub: Any, make_provider: Make) -> None:
    question = "When does the ferry leave? " + "茶" * 700_000 + " I mean the one to Bergen."
    provider = make_provider()
    assert provider.prefetch(question)
    provider.handle_tool_call(MEMORY_SEARCH, {"query": question})
    (asked,) = (body["query"] for body in stub.bodies(protocol.RECALL) if body["query"])
    assert stub.bodies(protocol.SEARCH_MEMORIES)[0]["query"] == asked
    assert len(asked) <= QUERY_CHARS + 1
    assert "ferry" in asked
    assert "Bergen" in asked
    assert shorten_query("short") == "short"


def test_a_worker_command_that_cannot_be_read_is_a_reason_and_not_a_trace(
    home: Path, make_provider: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", "python -c 'import")
    with caplog.at_level(logging.DEBUG):
        provider = make_provider()
        assert provider.is_available() is False
        assert "MEMORY_TENCENTDB_WORKER_CMD" in provider.unavailable_reason()
        assert "MEMORY_TENCENTDB_WORKER_CMD" in provider.get_status_config()["worker"]
        assert provider.prefetch("what do I like?") == ""
    assert not any(record.exc_info for record in caplog.records)
    with pytest.raises(SystemExit) as ended:
        cli.memory_tencentdb_command(Namespace(arguments=["status"]))
    assert ended.value.code == 4
    assert "MEMORY_TENCENTDB_WORKER_CMD" in capsys.readouterr().err


def test_a_command_that_ends_at_once_without_a_worker_is_named_as_that(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", f"{sys.executable} -c pass")
    began = time.monotonic()
    with pytest.raises(SpawnFailed, match="exit code 0, and no worker runs"):
        Supervisor(home, threading.Event()).connect(None)
    assert time.monotonic() - began < 10
