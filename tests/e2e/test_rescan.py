"""Secrets that were stored while redaction was off: a rescan takes them out of everything, and loses nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import fake_openai
from command_line import CommandLine
from planted_secrets import plant
from processes import FAST_PIPELINE, WorkerProcess

SECRETS = [plant(kind, "rescan") for kind in ("github-token", "password", "url-password", "private-key", "card")]
MARKS = ("github-token", "password", "url-password", "private-key", "card")


def settings(url: str, *, enabled: bool) -> dict[str, Any]:
    return {
        "llm": {"baseUrl": url, "model": "fake", "apiKey": "k"},
        "memory": {
            "pipeline": FAST_PIPELINE,
            "persona": {"triggerEveryN": 1},
            "embedding": {"provider": "openai", "baseUrl": url, "apiKey": "k", "model": "e", "dimensions": 64},
            "secrets": {"enabled": enabled},
        },
    }


@pytest.fixture
def old_home(tmp_path: Path) -> Iterator[WorkerProcess]:
    """A home that was filled without redaction, and a worker that redacts."""
    with fake_openai.running() as endpoint:
        process = WorkerProcess(tmp_path / "home", settings(endpoint.url, enabled=False))
        process.start()
        for number, one in enumerate(SECRETS):
            text = f"I like green tea number {number}. {one.sentence}"
            process.capture(text, f"So {one.sentence}", user_id="ada" if number == 1 else "")
        process.flush()
        process.stop()
        process = WorkerProcess(tmp_path / "home", settings(endpoint.url, enabled=True))
        process.start()
        yield process
        process.stop()


def holders(home: Path) -> list[str]:
    files = [path for path in sorted(home.rglob("*")) if path.is_file()]
    cores = [max(one.secret.splitlines(), key=len)[-12:].encode() for one in SECRETS]
    return [path.name for path in files if any(core in path.read_bytes() for core in cores)]


def check_that_all_is_found_and_traced(worker: WorkerProcess) -> None:
    (item, *_) = worker.post("/search/conversations", {"query": "green tea number 0"})["items"]
    assert "[redacted:github-token:" in item["text"]
    for found in worker.post("/search/memories", {"query": "green tea", "limit": 5})["items"]:
        traced = worker.get(f"/v1/why/{found['id']}").json()
        assert traced["messages"]
        assert all(message["hash_ok"] for message in traced["messages"])
    (change, *_) = worker.get("/v1/audit").json()["changes"]
    assert change["action"] == "redact"
    assert not change["undoable"]


def test_a_rescan_shows_its_plan_then_leaves_no_secret_and_every_message(old_home: WorkerProcess) -> None:
    cli = CommandLine(old_home.home)
    assert "memory.db" in holders(old_home.home)
    before = json.loads(cli.at_home("status", "--json").out)["counts"]
    plan = cli.at_home("rescan", "--json").document
    assert plan["dry_run"]
    assert plan["plan"]["messages"] == 2 * len(SECRETS)
    assert {secret["mark"].split(":")[0] for secret in plan["plan"]["secrets"]} == set(MARKS)
    assert "memory.db" in holders(old_home.home)
    done = cli.at_home("rescan", "--yes", "--json")
    assert done.code == 0, done.err + done.out
    old_home.flush()
    assert holders(old_home.home) == []
    assert json.loads(cli.at_home("status", "--json").out)["counts"] == before
    check_that_all_is_found_and_traced(old_home)
    again = cli.at_home("rescan", "--yes", "--json").document
    assert again["plan"]["messages"] == again["plan"]["atoms"] == again["plan"]["revisions"] == 0
    old_home.stop()
    assert holders(old_home.home) == []


def test_a_rescan_that_was_interrupted_is_finished_by_the_next_worker(old_home: WorkerProcess) -> None:
    secret = SECRETS[0].secret
    old_home.kill()
    intent = {
        "operation": "r_1", "kind": "redact", "phrase": "", "backups": "delete", "scope": "", "messages": [],
        "atoms": [], "texts": [secret], "ids": [],
    }  # fmt: skip
    (old_home.home / "data" / ".forgetting.json").write_text(json.dumps(intent))
    old_home.start()
    deadline = time.monotonic() + 20
    while (old_home.home / "data" / ".forgetting.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not (old_home.home / "data" / ".forgetting.json").exists()
    old_home.stop()
    connection = apsw.Connection(str(old_home.home / "data" / "memory.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert list(connection.execute("select 1 from messages where instr(text, ?)", (secret,))) == []
    connection.close()


def test_with_redaction_off_a_rescan_is_refused(tmp_path: Path) -> None:
    process = WorkerProcess(tmp_path / "home", {"memory": {"secrets": {"enabled": False}}})
    process.start()
    ran = CommandLine(tmp_path / "home").at_home("rescan")
    process.stop()
    assert ran.code == 1
    assert "memory.secrets.enabled" in ran.err
