"""Forgetting on a real worker's home that has run up to the persona: afterwards no byte of it holds the marker."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

import fake_openai
from processes import FAST_PIPELINE, WorkerProcess

MARKER = "zorblatt-4711"
"""Its words and its stem are nobody else's."""

WORDS = ("zorblatt", "Zorblatt", "krumbulak", "Krumbulak", "qwyjibo", "vexiplon", "Vexiplon", "zorblatt-4711")
FORMS = [form for word in WORDS for form in (word.encode(), word.encode("utf-16-le"))]
TOLD = [
    ("I work as a bridge engineer in Porto.", "s1"),
    ("My sister Ngozi lives in Lagos.", "s1"),
    (f"My locker code is {MARKER} and nobody else knows it.", "s1"),
    ("My favourite tea is Gyokuro.", "s2"),
    ("We adopted a cat called Zephyrine.", "s2"),
    ("My boat is called Krumbulak and lies in the harbour.", "s-session"),
    ("I like to play the qwyjibo on Sundays.", "s2"),
    ("I grew up in the village of Vexiplon.", "s-old"),
]
SAID_AT = "2026-03-05T10:00:00Z"


@pytest.fixture
def fake() -> Iterator[fake_openai.FakeEndpoint]:
    with fake_openai.running() as endpoint:
        yield endpoint


def settings(fake: fake_openai.FakeEndpoint) -> dict[str, Any]:
    return {
        "llm": {"baseUrl": fake.url, "model": "fake", "apiKey": "k"},
        "memory": {
            "pipeline": FAST_PIPELINE,
            "persona": {"triggerEveryN": 1},
            "embedding": {"provider": "openai", "baseUrl": fake.url, "apiKey": "k", "model": "e", "dimensions": 64},
        },
    }


@pytest.fixture
def worker(tmp_path: Path, fake: fake_openai.FakeEndpoint) -> Iterator[WorkerProcess]:
    process = WorkerProcess(tmp_path / "home", settings(fake))
    process.start()
    for number, (text, session) in enumerate(TOLD):
        process.capture(
            text,
            f"Noted: {text}",
            session,
            turn_id=f"t{number}",
            at=SAID_AT if session != "s-old" else "2025-03-05T10:00:00Z",
        )
    assert process.flush()["idle"]
    yield process
    process.stop()


@pytest.fixture
def young(tmp_path: Path) -> Iterator[WorkerProcess]:
    """Without a model: what was said, and what rules make of it."""
    process = WorkerProcess(tmp_path / "home", {"memory": {"pipeline": FAST_PIPELINE}})
    process.start()
    process.capture(TOLD[2][0], f"Noted: {TOLD[2][0]}", "s1")
    process.capture(TOLD[4][0], "Welcome.", "s2")
    yield process
    process.stop()


def files_with(home: Path, forms: list[bytes] = FORMS) -> list[str]:
    """The worker must not be running: opening its database drops its locks."""
    held = []
    for path in home.rglob("*"):
        if path.is_file() and any(form in path.read_bytes() for form in forms):
            held.append(str(path.relative_to(home)))
    return held


def forget(worker: WorkerProcess, **what: Any) -> dict[str, Any]:
    return worker.post("/v1/forget", {**what, "yes": True}, timeout_seconds=120)


def agree(home: Path) -> None:
    """Rows, index rows and vectors name the same messages and facts, and nothing points into the void."""
    database = apsw.Connection(str(home / "data/memory.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:

        def seqs(question: str) -> set[int]:
            return {row[0] for row in database.execute(question)}

        messages, live = seqs("select seq from messages"), seqs("select seq from atoms where superseded_at is null")
        assert seqs("select rowid from messages_fts where messages_fts match 'noted'") <= messages
        assert seqs("select id from messages_fts_docsize") == messages
        assert seqs("select id from atoms_fts_docsize") == seqs("select seq from atoms")
        assert seqs("select seq from message_places") == seqs("select seq from message_keys") == messages
        if seqs("select 1 from embedding_spaces"):
            assert seqs("select seq from space_1_l0") == messages
            assert seqs("select seq from space_1_l1") == live
        assert not seqs("select atom from atom_sources where message not in (select seq from messages)")
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
    finally:
        database.close()


def test_nothing_of_a_forgotten_text_is_left_after_restart_replay_and_a_second_try(worker: WorkerProcess) -> None:
    """By fact, session, text and date, one after the other in one home."""
    home = worker.home
    hits = worker.post("/search/memories", {"query": MARKER})["items"]
    atom = next(hit for hit in hits if MARKER in hit["text"])
    assert MARKER in (home / "data/persona.md").read_text(), "the run went up to the persona"
    plan = worker.post("/v1/forget", {"id": atom["id"]})
    assert plan["dry_run"]
    assert {atom["id"], *atom["sources"]} <= {item["id"] for item in plan["plan"]["items"]}
    assert worker.get(f"/v1/why/{atom['id']}").status_code == 200, "a plan changes nothing"
    for selection in (
        {"id": atom["id"]},
        {"session": "s-session"},
        {"matching": "qwyjibo"},
        {"before": "2026-01-01T00:00:00Z"},
    ):
        done = forget(worker, **selection)
        assert done["proof"]["hits"] == 0, done["proof"]
        assert done["proof"]["files"] > 5
    assert worker.capture(TOLD[2][0], "Noted.", "s1", turn_id="t2", at=SAID_AT)["reason"] == "forgotten"
    for number in (2, *range(5, len(TOLD))):  # the same again under another id, as a second seed would send it
        again = worker.capture(TOLD[number][0], "Another answer.", TOLD[number][1], turn_id=f"seed-{number}")
        assert (again["l0_recorded"], again["reason"]) == (0, "forgotten")
    assert worker.flush()["idle"]
    worker.stop()
    assert files_with(home) == []
    agree(home)
    worker.start()
    assert worker.capture(TOLD[2][0], "Noted.", "s1", turn_id="t2")["l0_recorded"] == 0
    assert worker.flush()["idle"]
    assert "Zephyrine" in worker.post("/recall", {"query": "the cat", "session_key": "x"})["context"]
    assert "Zephyrine" in (home / "data/persona.md").read_text(), "what did not rest on it stays"
    worker.stop()
    assert files_with(home) == []


def test_what_waits_in_the_outbox_a_log_and_old_copies_goes_too(young: WorkerProcess) -> None:
    home = young.home
    line = {"id": "t9", "route": "/capture", "at": 1, "body": {"user_content": f"say {MARKER}", "session_key": "s9"}}
    refused = home / "outbox/refused.jsonl"
    refused.parent.mkdir(exist_ok=True)
    refused.write_text(json.dumps({"reason": "x", "line": json.dumps(line)}) + "\n")
    log = home / "logs/worker.log.1"
    log.write_text(f"a line with {MARKER} in it\n")
    aside = home / "data/.backup/before-restore-20260101_000000"
    aside.mkdir(parents=True)
    (aside / "persona.md").write_text(f"# {MARKER}")
    (aside / "other.md").write_text("nothing of it")
    done = forget(young, matching=MARKER)
    assert done["outbox_lines"] == 1
    assert done["log_places"] == 1
    assert any(name.endswith("before-restore-20260101_000000/persona.md") for name in done["copies_deleted"])
    assert (aside / "other.md").exists()
    assert Path(done["backup"]).exists()
    young.stop()
    assert files_with(home, FORMS[:4]) == []


def test_kept_backups_are_named_in_the_proof(young: WorkerProcess) -> None:
    copy = young.home / "data/.backup/memory-20260101_000000.db"
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(f"not even a database {MARKER}".encode())
    done = forget(young, matching=MARKER, backups="keep")
    assert str(copy) in done["proof"]["where"]


def test_a_forgetting_that_was_killed_is_finished_by_the_next_worker(young: WorkerProcess) -> None:
    home = young.home

    def ask() -> None:
        with suppress(httpx.HTTPError):  # the worker dies while it answers
            forget(young, matching=MARKER)

    asking = threading.Thread(target=ask)
    asking.start()
    intent = home / "data/.forgetting.json"
    while not intent.exists() and asking.is_alive():
        time.sleep(0.001)
    young.kill()
    asking.join()
    assert intent.exists(), "it was killed before its end"
    young.start()
    deadline = time.monotonic() + 30
    while intent.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert young.flush()["idle"]
    young.stop()
    assert files_with(home, FORMS[:4]) == []
    agree(home)
