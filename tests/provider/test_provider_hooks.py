"""The hooks as the host calls them, against a stub worker on a real socket."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb import protocol
from memory_tencentdb.provider import TencentDBMemoryProvider
from memory_tencentdb.tools import CONVERSATION_SEARCH, MEMORY_SEARCH

NOT_THE_USERS = {"agent_context": "primary", "platform": "subagent"}  # the host says "primary" to all (M18)
Make = Callable[..., TencentDBMemoryProvider]


def wait_for(condition: Callable[[], Any], seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


def ready(provider: TencentDBMemoryProvider) -> TencentDBMemoryProvider:
    assert provider._link is not None
    assert provider._link.wait_ready(5)
    return provider


def outbox_lines(home: Path) -> list[dict[str, Any]]:
    files = sorted(path for path in (home / "outbox").glob("*.jsonl") if path.name != "refused.jsonl")
    lines: list[str] = []
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # delivered, and deleted, since the folder was read
            lines += path.read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_initialize_returns_at_once(make_provider: Make) -> None:
    started = time.perf_counter()
    make_provider()
    assert time.perf_counter() - started < 0.02


def test_tool_schemas_are_the_same_before_and_after_initialize(make_provider: Make) -> None:
    """Trap B14."""
    fresh = TencentDBMemoryProvider().get_tool_schemas()
    assert [schema["name"] for schema in fresh] == [MEMORY_SEARCH, CONVERSATION_SEARCH]
    assert make_provider().get_tool_schemas() == fresh


def test_prefetch_gives_the_workers_text_on_the_first_turn(stub: Any, make_provider: Make) -> None:
    """Trap B45."""
    assert make_provider().prefetch("favourite tea", unknown=1) == "- 2025-01-02 [m_1] about favourite tea"


def test_what_a_session_was_given_is_excluded_until_it_switches(stub: Any, make_provider: Make) -> None:
    provider = make_provider()
    provider.prefetch("favourite tea")
    provider.prefetch("green tea")
    provider.on_session_switch("s2", parent_session_id="s1", reset=True, reason="new_session")
    provider.prefetch("black tea")
    assert [body["exclude_ids"] for body in stub.bodies(protocol.RECALL)] == [[], ["m_1"], []]
    assert [body["session_id"] for body in stub.bodies(protocol.RECALL)] == ["s1", "s1", "s2"]


@pytest.mark.parametrize("prompt", ["ok", "OK!", "好的", "thanks.", "/help", "?", "…", "", "a"])
def test_trivial_prompts_are_not_recalled(stub: Any, make_provider: Make, prompt: str) -> None:
    provider = ready(make_provider())
    assert provider.prefetch(prompt) == ""
    assert stub.bodies(protocol.RECALL) == []


@pytest.mark.parametrize("prompt", ["茶叶", "/home/ada/notes.txt is broken", "ok what is my name"])
def test_real_prompts_are_recalled(stub: Any, make_provider: Make, prompt: str) -> None:
    assert make_provider().prefetch(prompt) != ""


def test_prefetch_keeps_its_budget_when_the_worker_is_frozen(home: Path, make_provider: Make) -> None:
    import socket

    from memory_tencentdb import paths

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as frozen:
        frozen.bind(str(paths.socket_path(home / "data")))
        frozen.listen(16)  # connections are taken and never answered, as by a stopped process
        provider = make_provider()
        started = time.monotonic()
        assert provider.prefetch("favourite tea") == ""
        assert time.monotonic() - started < 2.0
        started = time.monotonic()
        provider.sync_turn("I moved to Berlin", "Noted.")
        assert time.monotonic() - started < 0.2
        assert [line["body"]["user_content"] for line in outbox_lines(home)] == ["I moved to Berlin"]


def test_prefetch_answers_at_once_while_the_breaker_is_open(stub: Any, make_provider: Make) -> None:
    stub.answers[protocol.RECALL] = lambda body: (503, {"error": "no", "code": "store"})
    provider = ready(make_provider())
    for _ in range(6):
        assert provider.prefetch("favourite tea") == ""
    assert len(stub.bodies(protocol.RECALL)) == 5


def test_refused_requests_do_not_open_the_breaker(stub: Any, make_provider: Make) -> None:
    """Trap B18."""
    stub.answers[protocol.RECALL] = lambda body: (400, {"error": "no", "code": "invalid"})
    provider = ready(make_provider())
    for _ in range(10):
        provider.prefetch("favourite tea")
    del stub.answers[protocol.RECALL]
    assert provider.prefetch("favourite tea") != ""


def test_the_system_block_stays_the_same_until_compression(stub: Any, make_provider: Make) -> None:
    provider = make_provider()
    first = provider.system_prompt_block()
    assert "likes tea" in first
    changed = {"append_system_context": "# Persona\nlikes coffee", "prepend_context": "", "state": "ok"}
    stub.answers[protocol.RECALL] = lambda body: (200, changed)
    assert provider.system_prompt_block() == first
    provider.on_session_switch("s1", rewound=True)
    assert provider.system_prompt_block() == first
    provider.on_pre_compress([{"role": "user", "content": "what do I drink"}])
    assert "coffee" in provider.system_prompt_block()


def test_a_broken_worker_is_named_to_the_model_and_once_to_the_user(
    home: Path, make_provider: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap B12."""
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", "/nowhere/python -m memory_tencentdb_worker run")
    warnings: list[str] = []
    provider = make_provider(warning_callback=warnings.append)
    block = provider.system_prompt_block()
    for number in range(3):
        provider.prefetch("favourite tea")
        provider.sync_turn(f"fact {number}", "noted")
    assert "degraded" in block
    assert "/nowhere/python" in block
    assert "\n" not in block
    assert len(warnings) == 1
    assert len(outbox_lines(home)) == 3


def test_turns_reach_the_worker_in_order_with_their_session(stub: Any, make_provider: Make) -> None:
    """Trap B28."""
    provider = ready(make_provider("A", user_id="ada"))
    provider.sync_turn("one", "1")
    provider.on_session_switch("B", parent_session_id="A", reset=True)
    provider.sync_turn("two", "2")
    provider.sync_turn("three", "3", session_id="C", messages=[], future_argument=True)
    bodies = stub.bodies(protocol.CAPTURE)
    assert [(body["session_key"], body["user_content"]) for body in bodies] == [
        ("A", "one"),
        ("B", "two"),
        ("C", "three"),
    ]
    assert {body["user_id"] for body in bodies} == {"ada"}
    assert all("messages" not in body for body in bodies)


def test_a_gateway_key_is_the_session_key(stub: Any, make_provider: Make) -> None:
    provider = ready(make_provider("A", gateway_session_key="telegram:1"))
    provider.sync_turn("one", "1", session_id="A")
    assert stub.bodies(protocol.CAPTURE)[0]["session_key"] == "telegram:1"


def test_growing_syncs_of_one_turn_share_their_id_and_later_turns_do_not(stub: Any, make_provider: Make) -> None:
    """Trap B30."""
    provider = ready(make_provider())
    provider.on_turn_start(1, "run it")
    for count in range(8):
        messages = [{"role": "user", "content": "run it"}] + [{"role": "tool", "content": "x"}] * count
        provider.sync_turn("run it", f"step {count}", messages=messages)
    provider.on_turn_start(2, "run it")
    provider.sync_turn("run it", "again", messages=[{"role": "user", "content": "run it"}] * 2)
    ids = [body["turn_id"] for body in stub.bodies(protocol.CAPTURE)]
    assert len(set(ids[:8])) == 1
    assert ids[8] != ids[0]


@pytest.mark.parametrize(
    "facts",
    [
        {"agent_context": "cron"},
        {"platform": "cron"},
        {"agent_context": "subagent"},
        NOT_THE_USERS,
        {"agent_context": "flush"},
    ],
)
def test_turns_that_are_not_the_users_are_not_written(stub: Any, make_provider: Make, facts: dict[str, str]) -> None:
    """Trap B108."""
    provider = ready(make_provider(**facts))
    provider.sync_turn("run the nightly job", "done")
    provider.on_memory_write("add", "user", "likes tea")
    assert stub.bodies(protocol.CAPTURE) == stub.bodies(protocol.MEMORY_WRITE) == []


def test_content_parts_become_text_and_empty_turns_are_ignored(stub: Any, make_provider: Make) -> None:
    provider = ready(make_provider())
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    provider.sync_turn(parts, None)
    provider.sync_turn("", "")
    assert [body["user_content"] for body in stub.bodies(protocol.CAPTURE)] == ["look\n[image]"]


def test_a_huge_turn_travels_in_pieces_and_loses_nothing(stub: Any, make_provider: Make) -> None:
    provider = ready(make_provider())
    text = "茶\ud800" * 150_000
    provider.sync_turn(text, "short")
    bodies = stub.bodies(protocol.CAPTURE)
    assert "".join(body["user_content"] for body in bodies) == text
    assert "".join(body["assistant_content"] for body in bodies) == "short"
    assert len({body["turn_id"] for body in bodies}) == len(bodies)


def test_a_lost_reply_is_asked_for_again_with_the_same_id(stub: Any, make_provider: Make) -> None:
    replies: list[Any] = [None]
    stub.answers[protocol.CAPTURE] = lambda body: replies.pop() if replies else (200, {"turn_id": body["turn_id"]})
    provider = ready(make_provider())
    provider.sync_turn("one", "1")
    assert wait_for(lambda: len(stub.bodies(protocol.CAPTURE)) == 2)
    first, second = stub.bodies(protocol.CAPTURE)
    assert first == second


def test_turns_behind_the_outbox_do_not_overtake_it(home: Path, stub: Any, make_provider: Make) -> None:
    answers = {"status": 503}
    stub.answers[protocol.CAPTURE] = lambda body: (answers["status"], {"turn_id": body["turn_id"], "error": "full"})
    provider = ready(make_provider())
    provider.sync_turn("one", "1")
    provider.sync_turn("two", "2")
    assert [line["body"]["user_content"] for line in outbox_lines(home)] == ["one", "two"]
    stub.requests.clear()
    answers["status"] = 200
    provider.sync_turn("three", "3")
    assert wait_for(lambda: not outbox_lines(home))
    assert [body["user_content"] for body in stub.bodies(protocol.CAPTURE)] == ["one", "two", "three"]


def test_a_turn_the_worker_refuses_is_kept_aside(home: Path, stub: Any, make_provider: Make) -> None:
    stub.answers[protocol.CAPTURE] = lambda body: (422, {"error": "bad at", "code": "invalid"})
    ready(make_provider()).sync_turn("one", "1")
    kept = json.loads((home / "outbox" / "refused.jsonl").read_text())
    assert "bad at" in kept["reason"]
    assert json.loads(kept["line"])["body"]["user_content"] == "one"


def test_memory_writes_are_mirrored_with_what_they_replace(stub: Any, make_provider: Make) -> None:
    provider = ready(make_provider())
    provider.on_memory_write(
        "replace", "user", "likes coffee", {"old_text": "likes tea", "write_origin": "assistant_tool"}
    )
    provider.on_memory_write("add", "memory", "uses vim")
    first, second = stub.bodies(protocol.MEMORY_WRITE)
    assert (first["action"], first["old_text"], first["content"]) == ("replace", "likes tea", "likes coffee")
    assert first["write_id"] != second["write_id"]


def test_session_end_may_come_twice_with_nothing(stub: Any, make_provider: Make) -> None:
    """Trap B26."""
    provider = ready(make_provider())
    provider.on_session_end([])
    provider.on_session_end(None)
    assert stub.bodies(protocol.SESSION_END) == [{"session_key": "s1", "user_id": ""}] * 2


def test_the_fourth_search_of_a_turn_answers_that_the_budget_is_used_up(stub: Any, make_provider: Make) -> None:
    provider = ready(make_provider())
    provider.on_turn_start(1, "x")
    for name in (MEMORY_SEARCH, CONVERSATION_SEARCH, MEMORY_SEARCH):
        assert "likes tea" in json.loads(provider.handle_tool_call(name, {"query": "tea"}))["results"]
    refused = json.loads(provider.handle_tool_call(MEMORY_SEARCH, {"query": "tea"}))
    assert "used up" in refused["error"]
    assert refused["retry"] is False
    assert len(stub.bodies(protocol.SEARCH_MEMORIES)) == 2
    provider.on_turn_start(2, "y")
    assert "results" in json.loads(provider.handle_tool_call(MEMORY_SEARCH, {"query": "tea"}))


def test_tool_arguments_never_change_whose_memory_it_is(stub: Any, make_provider: Make) -> None:
    provider = ready(make_provider(user_id="ada"))
    forged = {
        "query": "tea",
        "user_id": "eve",
        "session_id": "x",
        "session_key": "s9",
        "limit": "7",
        "type": "nonsense",
    }
    provider.handle_tool_call(MEMORY_SEARCH, forged)
    provider.handle_tool_call(CONVERSATION_SEARCH, forged)
    assert stub.bodies(protocol.SEARCH_MEMORIES) == [{"query": "tea", "limit": 7, "user_id": "ada"}]
    assert stub.bodies(protocol.SEARCH_CONVERSATIONS) == [
        {"query": "tea", "limit": 7, "session_key": "s9", "user_id": "ada"}
    ]


def test_tools_on_a_broken_worker_give_one_terminal_answer(
    make_provider: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap B13."""
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", "/nowhere/python run")
    provider = make_provider()
    answers = set()
    for turn in range(5):
        provider.on_turn_start(turn, "x")
        answers.add(provider.handle_tool_call(MEMORY_SEARCH, {"query": "tea"}))
    started = time.monotonic()
    answers.add(provider.handle_tool_call(MEMORY_SEARCH, {"query": "tea"}))
    assert time.monotonic() - started < 0.1
    assert len(answers) == 1
    assert json.loads(answers.pop())["retry"] is False


def test_sync_is_quick_when_the_worker_is_away(
    home: Path, make_provider: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap B111."""
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", "/nowhere/python run")
    provider = make_provider()
    times = []
    for number in range(50):
        started = time.perf_counter()
        provider.sync_turn(f"turn {number}", "noted")
        times.append(time.perf_counter() - started)
    assert sorted(times)[-2] < 0.05
    assert len(outbox_lines(home)) == 50


def test_no_hook_raises_whatever_it_is_given(make_provider: Make) -> None:
    for provider in (TencentDBMemoryProvider(), make_provider()):
        provider.shutdown()
        provider.prefetch(None, odd=1)  # type: ignore[arg-type]
        provider.sync_turn(object(), 5, messages="x", odd=1)  # type: ignore[arg-type]
        provider.on_turn_start("x", None, odd=1)  # type: ignore[arg-type]
        provider.on_session_switch(None, odd=1)  # type: ignore[arg-type]
        provider.on_session_end({}, odd=1)
        provider.on_memory_write(None, None, None, "meta", odd=1)  # type: ignore[arg-type]
        provider.on_delegation(None, None, odd=1)  # type: ignore[arg-type]
        provider.queue_prefetch(None, odd=1)  # type: ignore[arg-type]
        assert provider.on_pre_compress("x", odd=1) == ""
        assert "error" in json.loads(provider.handle_tool_call("x", None, odd=1))
        provider.shutdown()
        provider.shutdown()


def test_nothing_is_started_after_shutdown(home: Path, stub: Any, make_provider: Make) -> None:
    provider = ready(make_provider())
    provider.shutdown()
    stub.requests.clear()
    assert provider.prefetch("favourite tea") == ""
    assert stub.requests == []
    assert not [thread for thread in threading.enumerate() if thread.name == "memory-tencentdb-link"]


def test_the_last_turn_survives_a_host_that_just_exits(home: Path, places: Path) -> None:
    code = (
        "from memory_tencentdb.provider import TencentDBMemoryProvider as P\n"
        f"p = P(); p.initialize('s1', hermes_home={str(places / 'hermes')!r})\np.sync_turn('marker', 'noted')\n"
    )
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"MEMORY_TENCENTDB_WORKER_CMD": "/nowhere/python run"}
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=30
    )
    assert finished.returncode == 0
    assert "Traceback" not in finished.stderr
    assert [line["body"]["user_content"] for line in outbox_lines(home)] == ["marker"]


def test_turns_of_a_killed_host_are_delivered_by_the_next_one(
    home: Path, places: Path, stub: Any, make_provider: Make
) -> None:
    code = (
        "import time\nfrom memory_tencentdb.provider import TencentDBMemoryProvider as P\n"
        f"p = P(); p.initialize('s1', hermes_home={str(places / 'hermes')!r})\n"
        "[p.sync_turn(f'fact {n}', 'noted') for n in range(3)]\nprint('kept', flush=True); time.sleep(60)\n"
    )
    environment = os.environ | {
        "TDAI_DATA_DIR": str(places / "elsewhere"),
        "MEMORY_TENCENTDB_WORKER_CMD": "/nowhere/x run",
    }
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen([sys.executable, "-c", code], cwd=root, env=environment, stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"kept\n"
        host.send_signal(signal.SIGKILL)
    make_provider("s2")
    assert wait_for(lambda: len(stub.bodies(protocol.CAPTURE)) == 3)
    assert [body["user_content"] for body in stub.bodies(protocol.CAPTURE)] == ["fact 0", "fact 1", "fact 2"]
    assert wait_for(lambda: not outbox_lines(home))
