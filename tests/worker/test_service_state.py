"""The worker's state: which facts lead to which state, and what `status` says about them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_tencentdb.outbox import Outbox
from memory_tencentdb.wire import HelloRequest, HostModel, RecallRequest
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import EmbeddingTransient
from memory_tencentdb_worker.service.reasons import Reason, kind_of, reason
from memory_tencentdb_worker.service.state import Circumstances, assess
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from service_parts import MARCH_5, PauseNote, QuietPipeline, WordEmbedder, build_service, embed_all, say

MINUTE_MS = 60_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = open_store(tmp_path / "data", MARCH_5)
    yield opened
    opened.close()


def state_of(**facts: object) -> str:
    return assess(Circumstances(now=MARCH_5, **facts))[0]  # type: ignore[arg-type]


def pause(code: str) -> Reason:
    return reason(code, "m", MARCH_5, "a")


def test_nothing_wrong_is_ok() -> None:
    assert assess(Circumstances(now=MARCH_5)) == ("ok", [])


def test_work_is_late_after_ten_minutes_and_not_before() -> None:
    assert state_of(oldest_due_at=MARCH_5 - 10 * MINUTE_MS) == "ok"
    assert state_of(oldest_due_at=MARCH_5 - 10 * MINUTE_MS - 1) == "lagging"
    assert state_of(retrying=1) == "lagging"


def test_wrong_settings_and_missing_vectors_degrade() -> None:
    assert state_of(config_errors=1) == "degraded"
    assert state_of(config_broken="config.yaml:3") == "degraded"
    assert state_of(embedding_problem="no key") == "degraded"


def test_the_worst_reason_gives_the_state_and_comes_first() -> None:
    state, reasons = assess(Circumstances(now=MARCH_5, config_errors=1, retrying=1, paused=[pause("llm_terminal")]))
    assert (state, [reason.code for reason in reasons]) == ("paused", ["llm_terminal", "config", "retrying"])


def test_a_pause_means_what_its_code_says() -> None:
    assert kind_of("llm_terminal").state == "paused"
    assert kind_of("embedding_terminal").state == "degraded"
    assert kind_of("disk_full").state == "broken"
    assert kind_of("store_corrupt").state == "broken"


def test_jobs_that_wait_for_a_paused_model_are_not_called_overdue_too() -> None:
    facts = Circumstances(now=MARCH_5, oldest_due_at=MARCH_5 - 60 * MINUTE_MS, paused=[pause("llm_terminal")])
    assert [reason.code for reason in assess(facts)[1]] == ["llm_terminal"]


def test_what_was_set_aside_is_named_without_changing_the_state() -> None:
    state, reasons = assess(Circumstances(now=MARCH_5, parked=2))
    assert (state, [reason.code for reason in reasons]) == ("ok", ["parked"])


def test_batches_set_aside_without_one_read_since_are_no_green_state() -> None:
    state, reasons = assess(Circumstances(now=MARCH_5, parked=2, nothing_read_since=MARCH_5 - MINUTE_MS))
    assert (state, [reason.code for reason in reasons]) == ("degraded", ["nothing_read", "parked"])


def test_every_reason_says_what_to_do(store: SqliteStore, tmp_path: Path) -> None:
    pipeline = QuietPipeline(pauses=[PauseNote("llm_terminal", "401 wrong key")])
    built = build_service(store, tmp_path, pipeline=pipeline, config_errors=({"key": "a"},), config_broken="c.yaml:1")
    document = built.service.status()
    assert document["state"] == "paused"
    assert [reason["code"] for reason in document["reasons"]] == ["llm_terminal", "config_file", "config"]
    assert all(reason["message"] and reason["action"] and reason["since"] for reason in document["reasons"])
    assert document["config"]["errors"] == [{"key": "a"}]
    assert built.service.health()["state"] == "paused"


def test_vectors_are_counted_and_a_missing_embedder_is_named(store: SqliteStore, tmp_path: Path) -> None:
    built = build_service(store, tmp_path)
    say(store, "A puppy came home")
    embedder = WordEmbedder()
    store.use_space(embedder.space)
    built.service.use_embedder(embedder)  # type: ignore[arg-type]
    part = built.service.status()["embedding"]
    assert (part["provider"], part["rows"], part["embedded"]) == ("fake", 1, 0)
    embed_all(store, embedder)
    document = built.service.status()
    assert (document["embedding"]["embedded"], document["counts"]["vectors"]) == (1, 1)
    assert built.service.health()["stores"]["embeddingService"] is True
    built.service.use_embedder(None, "no key is set")
    document = built.service.status()
    assert (document["state"], document["embedding"]["last_error"]) == ("degraded", "no key is set")


def test_status_still_answers_when_the_store_cannot_be_read(store: SqliteStore, tmp_path: Path) -> None:
    built = build_service(store, tmp_path)
    store.close()
    document = built.service.status()
    assert (document["state"], document["reasons"][0]["code"]) == ("broken", "store_closed")
    assert document["counts"]["atoms"] is None


def test_turns_in_the_outbox_are_counted(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "outbox").mkdir()
    (tmp_path / "outbox" / "1.jsonl").write_text("{}\n{}\n{}\n")
    (tmp_path / "outbox" / "1.done").write_text("3 1")
    (tmp_path / "outbox" / "refused.jsonl").write_text("{}\n")
    assert build_service(store, tmp_path).service.status()["outbox"] == {"turns": 2}


def test_a_data_directory_that_is_gone_breaks_the_state(store: SqliteStore, tmp_path: Path) -> None:
    built = build_service(store, tmp_path)
    shutil.move(tmp_path / "data", tmp_path / "elsewhere")
    assert built.service.refresh_state() == "broken"
    shutil.move(tmp_path / "elsewhere", tmp_path / "data")
    assert built.service.status()["state"] == "ok"


def test_the_host_s_model_is_taken_only_without_a_configured_one(store: SqliteStore, tmp_path: Path) -> None:
    offer = HelloRequest(1, "0.1.0", host_model=HostModel(model="m"))
    config = Config.model_validate({"llm": {"model": "own"}})
    own = build_service(store, tmp_path, config=config)
    own.service.hello(offer)
    without = build_service(store, tmp_path)
    without.service.hello(offer)
    without.service.hello(HelloRequest(1, "0.1.0", host_model=HostModel(model="m")))
    without.service.hello(HelloRequest(1, "0.1.0", host_model=HostModel()))
    without.service.hello(HelloRequest(1, "0.1.0", host_model=HostModel(model="n")))
    assert own.offered == []
    assert [one.model for one in without.offered] == ["m", "n"]


def test_a_session_left_out_of_memory_recalls_nothing(store: SqliteStore, tmp_path: Path) -> None:
    config = Config.model_validate({"memory": {"capture": {"excludeAgents": ["bench-*"]}}})
    built = build_service(store, tmp_path, config=config)
    say(store, "coffee is good")
    assert built.service.recall(RecallRequest("coffee", "bench-1")).items == []
    assert len(built.service.recall(RecallRequest("coffee", "my-bench-1")).items) == 1
    off = build_service(store, tmp_path, config=Config.model_validate({"memory": {"recall": {"enabled": False}}}))
    assert off.service.recall(RecallRequest("coffee", "k")).strategy == "none"


def test_a_turn_is_not_lost_from_idle_time(store: SqliteStore, tmp_path: Path) -> None:
    service = build_service(store, tmp_path).service
    service.touch()
    assert service.idle_seconds() < 1


def test_turns_that_stand_in_the_outbox_while_the_worker_is_up_are_seen() -> None:
    up_since = MARCH_5 - 10 * MINUTE_MS
    assert state_of(started_at=up_since, outbox_since=MARCH_5 - 2 * MINUTE_MS) == "ok"
    assert state_of(started_at=up_since, outbox_since=MARCH_5 - 4 * MINUTE_MS) == "degraded"
    assert state_of(started_at=MARCH_5 - MINUTE_MS, outbox_since=MARCH_5 - 90 * MINUTE_MS) == "ok"


def test_the_age_of_the_outbox_is_that_of_its_first_undelivered_line(store: SqliteStore, tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox", nonce="a", created_ms=1)
    assert outbox.oldest_at() is None
    for number, at in enumerate((MARCH_5 - 9 * MINUTE_MS, MARCH_5 - 8 * MINUTE_MS)):
        outbox.append(f"t{number}", "/capture", {"turn_id": f"t{number}"}, at)
    assert outbox.oldest_at() == MARCH_5 - 9 * MINUTE_MS
    taken: list[str] = []
    outbox.replay(lambda _route, body: taken.append(body["turn_id"]), lambda: not taken)
    assert outbox.oldest_at() == MARCH_5 - 8 * MINUTE_MS
    built = build_service(store, tmp_path)
    built.clock.now += 10 * MINUTE_MS
    document = built.service.status()
    assert (document["state"], document["reasons"][0]["code"]) == ("degraded", "outbox")
    outbox.replay(lambda _route, body: None, lambda: True)
    assert built.service.status()["state"] == "ok"


def test_an_embedder_that_fails_question_after_question_degrades_the_state(store: SqliteStore, tmp_path: Path) -> None:
    say(store, "My dog is called Bolt.")
    embedder = WordEmbedder(error=EmbeddingTransient("connection refused"))
    built = build_service(store, tmp_path)
    built.service.use_embedder(embedder)
    for _ in range(3):
        assert built.service.status()["state"] == "ok"
        built.service.recall(RecallRequest("who is my dog?", "k"))
    document = built.service.status()
    assert (document["state"], document["reasons"][0]["code"]) == ("degraded", "embedding")
    assert "connection refused" in str(document["embedding"]["last_error"])
    built.service.close()
