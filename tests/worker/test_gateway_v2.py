"""The v2 routes of a real worker: shapes, limits and envelopes of the original, rules of this memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from processes import FAST_PIPELINE, WorkerProcess

Answer = tuple[int, dict[str, Any]]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    config = {"memory": {"pipeline": FAST_PIPELINE, "timezone": "UTC"}}
    process = WorkerProcess(tmp_path_factory.mktemp("v2") / "home", config)
    process.start()
    yield process
    process.stop()


def ask(worker: WorkerProcess, route: str, **body: Any) -> Answer:
    with worker.client(60) as client:
        answer = client.post(f"/v2/{route}", json=body)
    return answer.status_code, answer.json()


def data(worker: WorkerProcess, route: str, **body: Any) -> dict[str, Any]:
    status, document = ask(worker, route, **body)
    assert (status, document["code"], document["message"]) == (200, 0, "ok"), document
    assert document["request_id"].startswith("req-")
    found: dict[str, Any] = document["data"]
    return found


def say(worker: WorkerProcess, session: str, user: str, at: str | None = None) -> list[str]:
    messages = [{"role": "user", "content": user, "timestamp": at}, {"role": "assistant", "content": "Noted."}]
    added = data(worker, "conversation/add", session_id=session, messages=messages)
    ids: list[str] = added["accepted_ids"]
    return ids


def lines(worker: WorkerProcess, path: str) -> list[dict[str, Any]]:
    return [line for section in worker.get(f"/v1/scene/{path}").json()["sections"] for line in section["lines"]]


def test_added_messages_are_turns_that_can_be_listed_and_found(worker: WorkerProcess) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "My canary is called Pip.", "timestamp": "2026-03-05T10:00:00Z"},
        {"role": "assistant", "content": "A fine name.", "timestamp": "2026-03-05T10:00:05Z"},
        {"role": "user", "content": "He sings at dawn.", "timestamp": "2026-03-06T10:00:00Z"},
        {"role": "user", "content": "Every day."},
    ]
    added = data(worker, "conversation/add", session_id="birds", messages=messages)
    assert added["total_count"] == len(set(added["accepted_ids"])) == 4, "a system message is not remembered"
    listed = data(worker, "conversation/query", session_id="birds")
    assert listed["total"] == 4
    assert {one["content"] for one in listed["messages"]} == {one["content"] for one in messages[1:]}
    day = {"time_start": "2026-03-05T00:00:00Z", "time_end": "2026-03-05T10:00:05Z"}
    assert [one["content"] for one in data(worker, "conversation/query", session_id="birds", **day)["messages"]] == [
        "A fine name.",
        "My canary is called Pip.",
    ]
    hit = data(worker, "conversation/search", query="canary", session_id="birds", **day)["messages"][0]
    assert set(hit) == {"id", "role", "content", "timestamp", "score"}
    assert hit["timestamp"] == "2026-03-05T10:00:00+00:00"
    later = data(worker, "conversation/search", query="dawn", **day)["messages"]
    assert "He sings at dawn." not in [one["content"] for one in later], "its neighbours may answer, it may not"
    assert data(worker, "conversation/query", session_id="birds", limit=1, offset=3)["messages"][0]["id"]


def test_a_time_that_is_none_keeps_everything_out_and_seconds_are_understood(worker: WorkerProcess) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "It is late.", "timestamp": 1_772_705_400},
        {"role": "assistant", "content": "Indeed."},
        {"role": "user", "content": "It is later.", "timestamp": "soon"},
    ]
    status, document = ask(worker, "conversation/add", session_id="times", messages=messages)
    assert (status, document["fields"][0]["field"]) == (422, "messages.2.timestamp")
    assert data(worker, "conversation/query", session_id="times")["total"] == 0
    data(worker, "conversation/add", session_id="times", messages=messages[:2])
    found = data(worker, "conversation/query", session_id="times")["messages"]
    assert [one["timestamp"] for one in found] == ["2026-03-05T10:10:00+00:00"] * 2


def test_deleted_messages_are_gone_and_unknown_ones_count_as_none(worker: WorkerProcess) -> None:
    ids = say(worker, "gone", "My bank is on Elm Street.")
    say(worker, "gone", "My dentist is on Oak Street.")
    assert data(worker, "conversation/delete", message_ids=[ids[0], "l0_unknown"])["deleted_count"] == 2, "with answer"
    assert data(worker, "conversation/query", session_id="gone")["total"] == 2
    assert data(worker, "conversation/delete", session_id="gone")["deleted_count"] == 2
    assert data(worker, "conversation/query", session_id="gone") == {"messages": [], "total": 0}
    assert data(worker, "conversation/delete", session_id="gone")["deleted_count"] == 0
    assert data(worker, "conversation/delete", message_ids=["l0_unknown"])["deleted_count"] == 0


def test_atoms_are_listed_found_changed_and_deleted(worker: WorkerProcess) -> None:
    say(worker, "atoms", "I live in Porto.")
    worker.flush()
    found = data(worker, "atomic/search", query="Porto")["items"][0]
    assert set(found) == {"id", "type", "background", "content", "created_at", "updated_at", "score"}
    changed = data(worker, "atomic/update", id=found["id"], content="The user lives in Braga.")
    assert data(worker, "atomic/update", id=changed["id"], content="The user lives in Braga.")["id"] == changed["id"]
    items = data(worker, "atomic/query", type="persona")["items"]
    assert changed["id"] in [one["id"] for one in items]
    assert found["id"] not in [one["id"] for one in items]
    assert data(worker, "atomic/query", time_end="2001-01-01")["total"] == 0
    assert data(worker, "atomic/delete", ids=[changed["id"], "m_unknown"])["deleted_count"] >= 1
    assert all("Braga" not in one["content"] for one in data(worker, "atomic/query")["items"])
    assert ask(worker, "atomic/update", id="m_unknown", content="x")[0] == 404


def test_scenes_and_persona_are_read_and_written_like_their_files(worker: WorkerProcess) -> None:
    assert data(worker, "scenario/read", path="none.md")["content"] is None
    say(worker, "docs", "My name is Ada and I work as a welder in Ghent.")
    worker.flush()
    listed = data(worker, "scenario/ls")
    entry = listed["entries"][0]
    assert listed["total"] == len(listed["entries"])
    assert data(worker, "scenario/ls", path_prefix="no-such/")["total"] == 0
    before = data(worker, "scenario/read", path=entry["path"])["content"]
    told = lines(worker, entry["path"])
    written = data(worker, "scenario/write", path=entry["path"], content=f"{before}\n- Likes rye bread.", summary="Ada")
    assert written["path"] == entry["path"]
    after = data(worker, "scenario/read", path=entry["path"])
    assert after["content"] == f"{before}\n- Likes rye bread."
    assert lines(worker, entry["path"])[: len(told)] == told, "a line that stayed keeps its sources"
    worker.flush()
    assert "rye bread" in (worker.home / "data" / "scene_blocks" / entry["path"]).read_text()
    core = data(worker, "core/read")["content"]
    assert "Ada" in core
    data(worker, "core/write", content=f"{core}\n- Speaks Flemish.")
    assert data(worker, "core/read")["content"].endswith("- Speaks Flemish.")
    assert data(worker, "scenario/rm", path=entry["path"]) == {"path": entry["path"]}
    assert data(worker, "scenario/read", path=entry["path"])["content"] is None
    for route, body in (("scenario/rm", {}), ("scenario/write", {"content": "x"})):
        status, document = ask(worker, route, path=entry["path"], **body)
        assert (status, document["code"], document["error"]) == (404, 404, "not_found")


def test_the_pipeline_says_what_it_has_to_do(worker: WorkerProcess) -> None:
    worker.flush()
    status = data(worker, "pipeline/status")
    assert set(status) == {"l1", "l2", "l3"}
    idle = {"queued": 0, "running": 0, "queued_sessions": 0, "running_sessions": 0, "idle": True}
    assert status["l1"] == idle


@pytest.mark.parametrize(
    ("route", "body", "field"),
    [
        ("conversation/add", {"session_id": "s", "messages": []}, "messages"),
        ("conversation/add", {"session_id": "s", "messages": [{"role": "user", "content": "x"}] * 101}, "messages"),
        ("conversation/add", {"session_id": "s", "messages": [{"role": "u", "content": "x"}]}, "messages.0.role"),
        ("conversation/add", {"session_id": "s", "messages": [{"role": "user", "content": "x" * 8193}]},
         "messages.0.content"),
        ("conversation/query", {"limit": 101}, "limit"),
        ("conversation/query", {"time_start": "yesterday-ish"}, "time_start"),
        ("conversation/search", {"query": "x" * 2049}, "query"),
        ("conversation/delete", {"message_ids": []}, "message_ids"),
        ("conversation/delete", {"message_ids": ["a"], "session_id": "s"}, "body"),
        ("atomic/query", {"type": "gossip"}, "type"),
        ("atomic/delete", {"ids": ["a"] * 101}, "ids"),
        ("scenario/read", {"path": "../memory.db"}, "path"),
        ("scenario/read", {"path": "/etc/passwd"}, "path"),
        ("core/write", {}, "content"),
    ],
)  # fmt: skip
def test_what_is_beyond_a_limit_is_422_and_named(
    worker: WorkerProcess, route: str, body: dict[str, Any], field: str
) -> None:
    status, document = ask(worker, route, **body)
    assert (status, document["code"]) == (422, 422)
    assert [one["field"] for one in document["fields"]] == [field]
    assert document["request_id"]
    assert document["message"]


def test_errors_made_before_the_routes_come_in_the_envelope_too(worker: WorkerProcess) -> None:
    with worker.client() as client:
        broken = client.post("/v2/core/write", content=b"{")
        large = client.post("/v2/core/write", content=b" " * (1 << 21))
        unknown = client.post("/v2/nothing", json={})
        head = client.head("/v2/nothing")
    assert [one.status_code for one in (broken, large, unknown, head)] == [400, 413, 404, 404]
    assert [one.json()["code"] for one in (broken, large, unknown)] == [400, 413, 404]
    assert broken.json()["request_id"] == broken.headers["x-request-id"]


def test_the_description_of_all_routes_is_valid_and_whole(worker: WorkerProcess) -> None:
    document = worker.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    v2 = [path for path in document["paths"] if path.startswith("/v2/")]
    assert len(v2) == 15
    for path in ("/health", "/recall", "/capture", "/search/memories", "/search/conversations", "/session/end"):
        assert path in document["paths"]
    operations = [one for path in document["paths"].values() for one in path.values()]
    names = [one["operationId"] for one in operations]
    assert len(names) == len(set(names))
    assert all("default" in one["responses"] for one in operations)
    assert "HTTPValidationError" not in document["components"]["schemas"], "our errors look otherwise"
