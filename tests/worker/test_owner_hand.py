"""Edit, undo, pause and the request to forget, through the routes of a real worker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processes import FAST_PIPELINE, WorkerProcess


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    process = WorkerProcess(tmp_path_factory.mktemp("owner") / "home", {"memory": {"pipeline": FAST_PIPELINE}})
    process.start()
    yield process
    process.stop()


def ask(worker: WorkerProcess, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
    with worker.client() as client:
        answer = client.post(path, json=body)
    return answer.status_code, answer.json()


def fact(worker: WorkerProcess, word: str, **more: Any) -> dict[str, Any]:
    items = worker.post("/search/memories", {"query": word, **more})["items"]
    return next(one for one in items if word in one["text"])


def codes(worker: WorkerProcess) -> set[str]:
    return {one["code"] for one in worker.get("/v1/status").json()["reasons"]}


def test_an_edit_stands_everywhere_rests_on_the_owner_and_can_be_undone(worker: WorkerProcess) -> None:
    worker.capture("I live in Porto.", session="e", user_id="ed")
    worker.flush()
    old = fact(worker, "Porto", user_id="ed")
    done = worker.post("/v1/edit", {"id": old["id"], "content": "The user lives in Braga.", "user_id": "ed"})
    worker.flush()
    context = worker.post("/recall", {"query": "where do I live", "session_key": "x", "user_id": "ed"})["context"]
    assert "Braga" in context
    assert "The user lives in Porto" not in context
    why = worker.get(f"/v1/why/{done['id']}").json()
    assert "The user lives in Braga." in [message["text"] for message in why["messages"]]
    undone = worker.post("/v1/undo", {"audit_id": done["audit_id"], "user_id": "ed"})
    assert fact(worker, "Porto", user_id="ed")["id"] == undone["id"]
    back = worker.post("/v1/undo", {"user_id": "ed"})
    assert fact(worker, "Braga", user_id="ed")["id"] == back["id"], "an undo is undone like any other change"
    assert ask(worker, "/v1/edit", id=old["id"], content="x y")[0] == 400


def test_a_forgetting_is_listed_and_cannot_be_undone(worker: WorkerProcess) -> None:
    worker.capture("I keep a secret garden near Sintra.", session="f", user_id="fo")
    worker.post("/v1/forget", {"matching": "Sintra", "user_id": "fo", "yes": True})
    change = worker.get("/v1/audit?user_id=fo").json()["changes"][0]
    assert (change["action"], change["undoable"]) == ("forget", False)
    status, answer = ask(worker, "/v1/undo", audit_id=change["id"], user_id="fo")
    assert (status, answer["code"]) == (400, "not_undoable")
    assert ask(worker, "/v1/forget", matching="Sintra", user_id="fo", yes=True)[0] == 404


def test_what_confirms_a_fact_is_taken_from_under_it_and_a_former_fact_holds_again(worker: WorkerProcess) -> None:
    worker.capture("I work at Siemens.", session="old", user_id="re")
    worker.flush()
    worker.capture("I work at Siemens.", session="again", user_id="re")
    worker.flush()
    worker.post("/v1/forget", {"session": "again", "user_id": "re", "yes": True})
    siemens = fact(worker, "Siemens", user_id="re")
    assert len(siemens["sources"]) == 1
    worker.capture("I now work at Bosch.", session="new", user_id="re")
    worker.flush()
    assert fact(worker, "Bosch", user_id="re")
    worker.post("/v1/forget", {"session": "new", "user_id": "re", "yes": True})
    worker.flush()
    assert fact(worker, "Siemens", user_id="re")["id"] == siemens["id"]
    assert "Siemens" in worker.post("/recall", {"query": "job", "session_key": "x", "user_id": "re"})["context"]


def test_nothing_of_a_pause_is_stored_however_late_it_comes(worker: WorkerProcess) -> None:
    worker.post("/v1/pause", {"session": "quiet-*", "user_id": "pa", "since": "2026-03-05T09:00:00Z"})
    assert "memory_paused" in codes(worker)
    said = {"session": "quiet-1", "user_id": "pa", "turn_id": "p1", "at": "2026-03-05T10:00:00Z"}
    answer = worker.capture("Nobody shall know about the surprise party.", **said)
    assert (answer["l0_recorded"], answer["reason"]) == (0, "paused")
    assert worker.capture("This is another session.", session="loud", user_id="pa")["l0_recorded"] == 2
    assert len(worker.post("/v1/resume", {"session": "quiet-*", "user_id": "pa"})["ended"]) == 1
    assert "memory_paused" not in codes(worker)
    assert worker.capture("Nobody shall know about the surprise party.", **said)["reason"] == "paused"
    history = [
        {"role": "user", "content": "Nobody shall know about the surprise party."},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "What is the weather?"},
        {"role": "assistant", "content": "Sunny."},
    ]
    later = worker.capture("What is the weather?", "Sunny.", "quiet-1", user_id="pa", messages=history)
    assert later["l0_recorded"] == 2, "the conversation so far does not bring it back"


@pytest.mark.parametrize(
    ("words", "said"),
    [("Forget that.", "en"), ("忘掉我刚才说的话吧。", "zh"), ("Please forget what I just said!", "en2")],
)
def test_a_request_to_forget_waits_for_the_owner(worker: WorkerProcess, words: str, said: str) -> None:
    user = f"wish-{said}"
    worker.capture("My passport lies in the blue drawer.", session="w", user_id=user)
    worker.flush()
    worker.capture(words, session="w", user_id=user)
    assert "forget_pending" in codes(worker)
    pending = worker.get("/v1/forget/pending").json()["pending"]
    assert "My passport lies in the blue drawer." in [target["text"] for target in pending[-1]["targets"]]
    worker.post("/v1/forget", {"pending": True, "yes": True})
    assert "forget_pending" not in codes(worker)
    assert not worker.post("/search/conversations", {"query": "passport drawer", "user_id": user})["items"]


def test_with_auto_it_is_forgotten_at_once(tmp_path: Path) -> None:
    config = {"memory": {"pipeline": FAST_PIPELINE, "forget": {"auto": True}}}
    process = WorkerProcess(tmp_path / "home", config)
    process.start()
    try:
        process.capture("My passport lies in the blue drawer.", session="w")
        process.capture("Forget that, please.", session="w")
        deadline = time.monotonic() + 30
        while process.get("/v1/status").json()["counts"]["messages"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        process.stop()


def test_private_spans_never_arrive(worker: WorkerProcess) -> None:
    worker.capture("I like tea. <private>My PIN is 9917.</private> And cake.", session="pr", user_id="pr")
    texts = [
        one["text"] for one in worker.post("/search/conversations", {"query": "tea cake", "user_id": "pr"})["items"]
    ]
    assert any("tea" in text for text in texts)
    assert not any("9917" in text for text in texts)
