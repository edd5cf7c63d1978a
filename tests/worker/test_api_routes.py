"""What each route answers, over the socket, from a real store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from urllib.parse import quote

import pytest

from memory_tencentdb import protocol, wire
from memory_tencentdb_worker.models import AtomType
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from service_parts import MARCH_5, Built, Caller, build_service, learn, say, served


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = open_store(tmp_path / "data", MARCH_5)
    yield opened
    opened.close()


@pytest.fixture
def built(store: SqliteStore, tmp_path: Path) -> Built:
    return build_service(store, tmp_path, config_file="/etc/x.yaml")


@pytest.fixture
def caller(built: Built) -> Iterator[Caller]:
    with served(built.service) as made:
        yield made


def names(kind: type) -> set[str]:
    return {item.name for item in fields(kind)}


def test_health_tells_version_state_and_identity(caller: Caller, store: SqliteStore) -> None:
    health = caller.get("/health").json
    assert health["status"] == "ok"
    assert health["stores"] == {"vectorStore": True, "embeddingService": False}
    assert (health["state"], health["protocol"], health["version"]) == ("ok", protocol.PROTOCOL, protocol.VERSION)
    assert health["data_dir_id"] == store.data_dir_id
    assert isinstance(health["pid"], int)


def test_hello_answers_who_it_is_and_hands_on_the_host_s_model(caller: Caller, built: Built) -> None:
    model = {"base_url": "http://x/v1", "api_key": "k", "model": "m", "provider": "p"}
    answer = caller.post(protocol.HELLO, protocol=1, version="0.1.0", client="provider", host_model=model)
    assert set(answer.json) == names(wire.HelloResponse)
    assert answer.json["data_dir"].endswith("/data")
    assert [vars(one) for one in built.offered] == [model]
    caller.post(protocol.HELLO, protocol=1, version="0.1.0")
    assert len(built.offered) == 1


def test_capture_then_recall_then_why_name_the_same_message(caller: Caller, built: Built) -> None:
    captured = caller.post(
        "/capture", user_content="My sister Ana lives in Porto", assistant_content="", session_key="cli:1",
        session_id="s1", turn_id="t1", at="2026-03-05T10:00:00+00:00",
    )  # fmt: skip
    assert captured.json == {
        "l0_recorded": 1, "scheduler_notified": True, "turn_id": "t1", "duplicate": False,
        "message_ids": captured.json["message_ids"], "reason": "",
    }  # fmt: skip
    assert built.pipeline.woken == 1
    again = caller.post(
        "/capture", user_content="My sister Ana lives in Porto", assistant_content="", session_key="cli:1",
        session_id="s1", turn_id="t1",
    )  # fmt: skip
    assert (again.json["l0_recorded"], again.json["duplicate"]) == (0, True)
    recalled = caller.post("/recall", query="where does Ana live?", session_key="cli:2", session_id="s2").json
    assert set(recalled) == names(wire.RecallResponse)
    assert "Ana lives in Porto" in recalled["context"]
    assert recalled["context"] == recalled["prepend_context"]
    assert recalled["receipt"]["used_tokens"] <= recalled["receipt"]["budget_tokens"] == 2000
    why = caller.get(f"/v1/why/{recalled['items'][0]['id']}").json
    assert [message["text"] for message in why["messages"]] == ["My sister Ana lives in Porto"]
    assert why["messages"][0]["hash_ok"] is True
    assert why["messages"][0]["at"] == "2026-03-05T10:00:00+00:00"


def test_recall_keeps_to_the_callers_budget_and_leaves_out_what_it_has(caller: Caller, store: SqliteStore) -> None:
    ids = [say(store, f"coffee number {number} is good")[0] for number in range(8)]
    answer = caller.post("/recall", query="coffee", session_key="k", max_tokens=120, exclude_ids=ids[:2]).json
    assert answer["receipt"]["budget_tokens"] == 120
    assert 0 < answer["receipt"]["used_tokens"] <= 120
    assert not {item["id"] for item in answer["items"]} & set(ids[:2])
    reasons = {one["reason"] for one in answer["receipt"]["dropped"]}
    assert reasons <= {"budget", "already given", "limit"}
    assert "already given" in reasons


def test_searches_answer_text_and_items(caller: Caller, store: SqliteStore) -> None:
    (message,) = say(store, "I drink espresso")
    atom = learn(store, "Drinks espresso.", message, scene_name="Coffee")
    found = caller.post("/search/memories", query="espresso", type="persona", scene="coff", limit=3).json
    assert (found["total"], found["strategy"], [item["id"] for item in found["items"]]) == (1, "keyword", [atom])
    assert atom in found["results"]
    item = found["items"][0]
    assert (item["layer"], item["type"], item["scene"], item["sources"]) == ("L1", "persona", "Coffee", [message])
    found = caller.post("/search/conversations", query="espresso", session_key="k").json
    assert [item["id"] for item in found["items"]] == [message]
    assert caller.post("/search/memories", query="", limit=None).json["items"] == []
    assert caller.post("/search/memories", query="?!").status == 200
    assert caller.post("/search/memories", query="x", type="nonsense").status == 400


@pytest.mark.parametrize("user_id", ["a/b", "ü" * 300, "Alice", " alice", "../x", "a'b\"c"])
def test_an_odd_user_is_kept_apart_as_it_is(caller: Caller, user_id: str) -> None:
    stored = caller.post(
        "/capture", user_content="The code is 4711", assistant_content="", session_key="k", user_id=user_id
    )
    assert stored.status == 200
    for other in ("", "alice", "a", "x"):
        assert caller.post("/recall", query="code 4711", session_key="k", user_id=other).json["items"] == []
    assert len(caller.post("/recall", query="code 4711", session_key="k", user_id=user_id).json["items"]) == 1


@pytest.mark.parametrize("user_id", ["u" * 501, "a\u0000b", "a\nb", "\ud800"])
def test_a_user_that_cannot_be_kept_is_refused_everywhere(caller: Caller, user_id: str) -> None:
    for path, body in {
        "/recall": {"query": "q", "session_key": "k"},
        "/search/memories": {"query": "q"},
        "/search/conversations": {"query": "q"},
        "/session/end": {"session_key": "k"},
        "/capture": {"user_content": "x", "assistant_content": "y", "session_key": "k"},
    }.items():
        assert caller.post(path, {**body, "user_id": user_id}).status in (400, 422), path


def test_text_with_half_a_character_is_stored_and_found_without_it(caller: Caller) -> None:
    answer = caller.post("/capture", user_content="mango\ud800 juice\x00", assistant_content="", session_key="k")
    assert answer.status == 200
    found = caller.post("/search/conversations", query="mango\ud800").json
    assert found["total"] == 1
    assert "\ud800" not in found["results"]


def test_session_end_and_flush_may_come_at_any_time(caller: Caller) -> None:
    assert caller.post("/session/end", session_key="unknown").json == {"flushed": True, "jobs": 0}
    assert caller.post("/session/end", session_key="").status == 400
    flushed = caller.post(protocol.FLUSH, wait_seconds=0).json
    assert set(flushed) == names(wire.FlushResponse)
    assert flushed["idle"] is True
    assert caller.post(protocol.FLUSH, wait_seconds=-1).status == 400
    assert caller.send("POST", protocol.FLUSH, b'{"wait_seconds": NaN}').status in (400, 422)


def test_a_flush_that_is_not_done_in_time_says_so(caller: Caller, built: Built) -> None:
    caller.post("/capture", user_content="something to read", assistant_content="", session_key="k")
    started = time.monotonic()
    answer = caller.post(protocol.FLUSH, wait_seconds=0.3).json
    assert answer["idle"] is False
    assert 0.3 <= answer["waited_seconds"] <= time.monotonic() - started
    assert built.pipeline.woken >= 2


def test_status_has_every_key_of_the_contract(caller: Caller) -> None:
    document = caller.get(protocol.STATUS).json
    expected = {
        "worker": {"pid", "version", "protocol", "uptime_seconds", "rss_bytes", "socket", "gateway"},
        "counts": {"turns", "messages", "atoms", "scenes", "persona", "vectors", "superseded"},
        "jobs": {"due", "running", "retrying", "parked", "oldest_due_seconds"},
        "outbox": {"turns"},
        "llm": {"configured", "source", "model", "endpoint", "breaker", "last_ok_at", "last_error"},
        "embedding": {"provider", "model", "dimensions", "rows", "embedded", "breaker", "last_error"},
        "config": {"file", "errors"},
        "calls": {"today", "tokens_in", "tokens_out", "cost_usd"},
    }
    assert {"state", "reasons", "data_dir"} | set(expected) <= set(document)
    for part, keys in expected.items():
        assert keys <= set(document[part]), part
    assert (document["state"], document["reasons"], document["mode"]) == ("ok", [], "offline")
    assert document["config"]["file"] == "/etc/x.yaml"
    assert document["worker"]["rss_bytes"] > 0


def test_null_for_an_optional_field_counts_as_absent(caller: Caller) -> None:
    body = {"query": "x", "session_key": "k", "user_id": None, "session_id": None, "max_tokens": None}
    assert caller.post("/recall", body).status == 200
    assert caller.post("/recall", {"query": None, "session_key": "k"}).status == 422
    stored = caller.post(
        "/capture", {"user_content": "x", "assistant_content": None, "session_key": "k", "user_id": None}
    )
    assert (stored.status, stored.json["l0_recorded"]) == (200, 1)


def test_memory_writes_of_the_host_become_atoms(caller: Caller) -> None:
    answer = caller.post(
        protocol.MEMORY_WRITE, action="add", target="user", content="User is allergic to peanuts", session_key="k"
    )
    assert answer.status == 200
    (atom,) = answer.json["atom_ids"]
    assert caller.post("/search/memories", query="peanuts").json["items"][0]["id"] == atom
    assert caller.get(f"/v1/why/{atom}").json["messages"][0]["hash_ok"] is True


def test_inspect_shows_layers_pages_and_filters(caller: Caller, store: SqliteStore) -> None:
    for number in range(5):
        user, _ = say(store, f"question {number}", f"answer {number}", at=MARCH_5 + number * 1000)
    learn(store, "Asks questions.", user, priority=90)
    learn(store, "Asked a question.", user, type=AtomType.EPISODIC, priority=50)
    page = caller.get("/v1/inspect?level=L0&limit=2&filter=role%3Duser&sort=asc").json
    assert (page["level"], page["total"], page["limit"], page["sort"]) == ("L0", 5, 2, "asc")
    assert [row["content"] for row in page["data"]] == ["question 0", "question 1"]
    assert {"id", "role", "sessionKey", "sessionId", "recordedAt", "timestamp"} <= set(page["data"][0])
    page = caller.get("/v1/inspect?level=L1&filter=" + quote("type=persona,priority>=80")).json
    assert [row["content"] for row in page["data"]] == ["Asks questions."]
    assert caller.get("/v1/inspect").json["data"]["L1"]["types"]["episodic"] == 1
    assert caller.get("/v1/inspect?level=L3").json["data"] == []
    assert caller.get("/v1/inspect?level=L9").status == 400
    assert caller.get("/v1/inspect?level=L0&filter=drop%20table").status == 400
    assert caller.get("/v1/inspect?level=L2&file=nothing.md").status == 404
    assert caller.get("/v1/inspect?level=L0&limit=many").status == 422


def test_unknown_ids_are_404_whatever_they_hold(caller: Caller) -> None:
    for item_id in ("m_0000000000000000", "../../etc/passwd", "a/b", "\u202e", "persona", "x" * 3000):
        answer = caller.get(f"/v1/why/{quote(item_id, safe='')}")
        assert (answer.status, answer.json["code"]) == (404, "not_found"), item_id
        assert caller.get(f"/v1/scene/{quote(item_id, safe='')}").status == 404


def test_rebuild_and_stop_reach_the_composition_root(caller: Caller, built: Built) -> None:
    assert caller.post(protocol.REBUILD, {}).json == {"files": 7}
    answer = caller.send("POST", protocol.STOP, None)
    assert (answer.status, built.stops) == (202, [True])
