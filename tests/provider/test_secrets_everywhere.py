"""Planted secrets through every entrance, and a byte scan of everything that is left: none is there."""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fake_openai
from command_line import CommandLine
from memory_tencentdb.outbox import Outbox
from memory_tencentdb.protocol import CAPTURE
from memory_tencentdb.provider import TencentDBMemoryProvider
from memory_tencentdb.redaction import MARK
from memory_tencentdb.redaction.settings import FILE, HomeRedactor, RedactionSettings, announce_settings
from memory_tencentdb.starts import Starts
from planted_secrets import KINDS, Planted, plant
from processes import FAST_PIPELINE, WorkerProcess

Make = Callable[..., TencentDBMemoryProvider]


def planted(entrance: str, kinds: tuple[str, ...] = KINDS) -> list[Planted]:
    return [plant(kind, entrance) for kind in kinds]


def leaks(secrets: list[Planted], *folders: Path, apart_from: tuple[str, ...] = ()) -> list[str]:
    """Each file that holds a secret, or the best part of one, as it is or as JSON writes it."""
    found = []
    for path in (path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()):
        if path.name in apart_from:
            continue
        data = path.read_bytes()
        for one in secrets:
            core = max(one.secret.splitlines(), key=len)[-12:].encode()
            if core in data:
                found.append(f"{path.name}: {one.kind}")
    return found


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[tuple[WorkerProcess, fake_openai.FakeOpenAI]]:
    with fake_openai.running() as endpoint:
        config = {
            "memory": {"pipeline": FAST_PIPELINE},
            "llm": {"baseUrl": endpoint.url, "apiKey": "sk-test", "model": "fake-model"},
        }
        process = WorkerProcess(tmp_path / "home", config, {"MEMORY_TENCENTDB_LOG_LEVEL": "DEBUG"})
        process.start()
        yield process, endpoint
        process.stop()


def test_nothing_that_comes_by_http_is_kept_logged_or_sent_to_a_model(
    worker: tuple[WorkerProcess, fake_openai.FakeOpenAI],
) -> None:
    process, endpoint = worker
    said, tools, hooks = planted("turn"), planted("tool"), planted("hook")
    for number, (one, tool, hook) in enumerate(zip(said, tools, hooks, strict=True)):
        messages = [
            {"role": "user", "content": [{"type": "text", "text": one.sentence}]},
            {"role": "tool", "content": tool.sentence, "tool_call_id": "c1"},
            {"role": "assistant", "content": tool.sentence},
        ]
        process.capture(one.sentence, f"I see: {tool.sentence}", turn_id=f"t{number}", messages=messages)
        write = {"action": "add", "target": "user", "content": hook.sentence, "session_key": "s1"}
        process.post("/v1/memory-write", write)
        process.post("/recall", {"query": one.sentence, "session_key": "s1"})
    named = planted("name", ("github-token", "slack-token"))
    for one in named:
        process.capture("What do I like?", "Tea.", session=f"agent:{one.secret}", source=one.secret)
        assert process.post("/search/conversations", {"query": "tea", "session_key": f"agent:{one.secret}"})["total"]
    process.flush()
    odd = planted("odd", ("github-token", "password"))
    with process.client() as client:
        for one in odd:
            client.post("/capture", json={"user_content": {"x": one.sentence}, "session_key": 5})
            client.post("/recall", json={"query": one.sentence, "session_key": "", "max_tokens": one.sentence})
            client.post(f"/{one.kind}", content=one.sentence)
    process.kill()
    everything = [*said, *tools, *hooks, *named, *odd]
    assert len(everything) >= 60
    assert leaks(everything, process.home) == []
    sent = json.dumps([request.body for request in endpoint.requests])
    assert endpoint.requests
    assert [one.kind for one in everything if one.secret in sent] == []


def test_an_edit_and_a_hand_edited_file_lose_their_secrets(
    worker: tuple[WorkerProcess, fake_openai.FakeOpenAI],
) -> None:
    process, _ = worker
    by_hand, by_command = plant("github-token", "hand"), plant("password", "edit")
    process.capture("I live in Lisbon and I like green tea.", "Noted.")
    process.flush()
    found = process.post("/search/memories", {"query": "Lisbon"})["items"]
    process.post("/v1/edit", {"id": found[0]["id"], "content": f"I live in Porto, {by_command.sentence}"})
    process.flush()
    scene = next((process.home / "data" / "scene_blocks").glob("*.md"))
    scene.write_text(scene.read_text(encoding="utf-8") + f"\n- {by_hand.sentence}\n", encoding="utf-8")
    process.capture("Something else was said: I have two cats.", "Noted.")
    process.flush()
    process.stop()
    assert "[redacted:github-token:" in scene.read_text(encoding="utf-8")
    assert leaks([by_hand, by_command], process.home) == []


def test_what_waits_in_the_outbox_holds_no_secret(home: Path, make_provider: Make) -> None:
    """The worker cannot be started here: all turns wait on disk."""
    provider, kept = make_provider("agent:" + plant("slack-token", "key").secret), planted("outbox")
    for number, one in enumerate(kept):
        provider.on_turn_start(number)
        provider.sync_turn(one.sentence, f"I repeat: {one.sentence}")
        provider.on_memory_write("replace", "memory", one.sentence, {"old_text": one.sentence})
    waiting = (home / "outbox").glob("*.jsonl")
    assert sum(path.read_text().count("\n") for path in waiting) == 2 * len(kept)
    assert leaks([*kept, plant("slack-token", "key")], home.parent) == []


def test_provider_and_worker_give_a_secret_the_same_fingerprint(
    home: Path, make_provider: Make, real_worker: None
) -> None:
    secret = plant("github-token", "both")
    provider = make_provider()
    provider.sync_turn(secret.sentence, "")
    assert provider._link is not None
    assert provider._link.wait_ready(20)
    provider._ask(CAPTURE, {"user_content": secret.sentence, "assistant_content": "", "session_key": "http"}, 10)
    found = provider._ask("/search/conversations", {"query": "git clone github", "limit": 10}, 5)
    texts = {item["session_key"]: MARK.findall(item["text"]) for item in found["items"]}
    assert texts["s1"] == texts["http"] != []


def test_an_outbox_of_an_older_version_is_redacted_as_it_is_taken_in(
    home: Path, make_provider: Make, real_worker: None
) -> None:
    secret = plant("stripe-key", "old")
    body = {"user_content": secret.sentence, "assistant_content": "", "session_key": "s", "turn_id": "t1", "at": 1}
    Outbox(home / "outbox", nonce="old", created_ms=1).append("t1", CAPTURE, body, 1)
    provider = make_provider()
    assert provider._link is not None
    assert provider._link.wait_ready(20)
    provider._link.drain(10)
    assert provider._ask("/search/conversations", {"query": "billing"}, 5)["total"] == 1
    assert leaks([secret], home) == []


def test_a_crash_leaves_no_secret_in_output_or_records(
    home: Path, make_provider: Make, monkeypatch: pytest.MonkeyPatch, places: Path
) -> None:
    secrets = planted("crash", ("github-token", "url-password", "password", "private-key"))
    script = home.parent / "crash.py"
    script.write_text("import sys\nsys.exit('worker lost: ' + '; '.join(sys.argv[1:5]))\n")
    words = [sys.executable, str(script), *(one.sentence for one in secrets)]
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", shlex.join(words))
    provider = make_provider()
    assert provider._link is not None
    provider._link.wait_ready(5)
    assert "[redacted:github-token]" in provider._link.reason + str(Starts(home / "data").last_crash())
    script.unlink()
    assert leaks(secrets, home, places / "run") == []


def test_a_worker_that_raises_prints_no_secret(tmp_path: Path) -> None:
    """As it would for an error that nobody foresaw: here the name of its log's directory, which is a file."""
    secret = plant("github-token", "raise")
    (tmp_path / secret.secret).write_text("")
    cli = CommandLine(tmp_path / "home")
    ran = cli.at_home("run", MEMORY_TENCENTDB_LOG_DIR=str(tmp_path / secret.secret))
    assert ran.code != 0
    assert secret.secret not in ran.out + ran.err


def test_a_wrong_configuration_shows_no_secret(tmp_path: Path) -> None:
    secrets = planted("config", ("github-token", "openai-key", "url-password", "aws-access-key", "slack-token"))
    token, key, url, aws, slack = (one.secret for one in secrets)
    config = {
        "llm": {"timeoutMs": token, "baseUrl": f"ftp://a:{url}@h", "model": aws, "disableThinking": slack},
        "memory": {"timezone": key, "recall": {"strategy": token}, "unknwon": aws, "secrets": {"allow": [f"/({key}/"]}},
    }
    process = WorkerProcess(tmp_path / "home", config)
    process.start()
    status = process.get("/v1/status").text
    process.stop()
    cli = CommandLine(tmp_path / "home")
    shown = [cli.at_home(*words).out + cli.at_home(*words).err for words in (("status", "--json"), ("config", "show"))]
    assert "memory.secrets.allow" in status
    assert [one.kind for one in secrets if one.secret in status + "".join(shown)] == []
    assert leaks(secrets, process.home, apart_from=("config.json",)) == []


def test_a_hook_that_fails_logs_no_secret(make_provider: Make, caplog: pytest.LogCaptureFixture) -> None:
    secret = plant("github-token", "hook-error")

    class Odd:
        def __str__(self) -> str:
            raise RuntimeError(secret.sentence)

    caplog.set_level(logging.DEBUG)
    make_provider().sync_turn(Odd(), "")
    assert "RuntimeError" in caplog.text
    assert secret.secret not in caplog.text


def test_what_the_owner_allows_stays_at_both_ends(home: Path, make_provider: Make, tmp_path: Path) -> None:
    announce_settings(home, RedactionSettings(allow=("hunter2",)))
    provider = make_provider()
    provider.sync_turn("my password is hunter2", "")
    (line,) = [path.read_text() for path in (home / "outbox").glob("*.jsonl")]
    assert "hunter2" in line
    announce_settings(home, RedactionSettings())
    provider.on_turn_start(2)
    provider.sync_turn("my password is hunter2", "")
    assert "".join(path.read_text() for path in (home / "outbox").glob("*.jsonl")).count("hunter2") == 1


def test_the_key_is_private_and_survives_a_change_of_settings(tmp_path: Path) -> None:
    first = HomeRedactor(tmp_path / "home").get().fingerprint("x")
    assert os.stat(tmp_path / "home" / FILE).st_mode & 0o777 == 0o600
    announce_settings(tmp_path / "home", RedactionSettings(personal=True))
    assert HomeRedactor(tmp_path / "home").get().fingerprint("x") == first
    (tmp_path / "home" / FILE).write_text("{")
    assert "hunter2" not in HomeRedactor(tmp_path / "home").get().redact("my password is hunter2")


def test_a_home_that_cannot_be_written_still_redacts(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    redactor = HomeRedactor(tmp_path / "home")
    assert "hunter2" not in (once := redactor.get().redact("my password is hunter2"))
    assert redactor.get().redact("my password is hunter2") == once
