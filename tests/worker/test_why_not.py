"""`why-not` names the first gate that kept a memory out of a recall."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb import protocol, wire
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import NotFound
from memory_tencentdb_worker.models import AtomChanges
from memory_tencentdb_worker.service import MemoryService
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from service_parts import MARCH_5, WordEmbedder, build_service, embed_all, learn, say, served


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = open_store(tmp_path / "data", MARCH_5)
    yield opened
    opened.close()


@pytest.fixture
def service(store: SqliteStore, tmp_path: Path) -> Iterator[MemoryService]:
    made = build_service(store, tmp_path).service
    yield made
    made.close()


def gate(service: MemoryService, item_id: str, query: str, **more: Any) -> str:
    return service.why_not(wire.WhyNotRequest(item_id, query, **more)).gate


def test_what_is_given_is_said_to_be_given(store: SqliteStore, service: MemoryService) -> None:
    (message,) = say(store, "The boiler was serviced in May")
    answer = service.why_not(wire.WhyNotRequest(message, "boiler"))
    assert (answer.gate, answer.given, answer.layer) == ("given", True, "L0")


def test_a_fact_stands_for_its_message(store: SqliteStore, service: MemoryService) -> None:
    (message,) = say(store, "I moved to Lisbon in March")
    learn(store, "The user moved to Lisbon in March.", message)
    assert gate(service, message, "Lisbon") == "said_by_fact"


def test_each_reason_of_a_receipt_is_a_gate(store: SqliteStore, service: MemoryService) -> None:
    (message,) = say(store, "The alarm code is 4711", session_id="earlier")
    assert gate(service, message, "alarm code", exclude_ids=[message]) == "already_given"
    assert gate(service, message, "alarm code", max_tokens=5) == "budget"
    assert gate(service, message, "?!") == "empty_query"
    (twin,) = say(store, "the alarm code  is 4711", session_id="other")
    assert {gate(service, one, "alarm code") for one in (message, twin)} == {"given", "same_text"}


def test_more_than_the_limit_and_far_below_it_are_told_apart(store: SqliteStore, service: MemoryService) -> None:
    known = [
        learn(store, f"The user visited museum number {number}.", say(store, f"museum trip {number}")[0])
        for number in range(40)
    ]
    gates = [gate(service, one, "museum") for one in known]
    assert set(gates) == {"given", "limit", "crowded_out"}
    (message,) = say(store, "The museum shop closes at six", at=MARCH_5 - 1)
    assert gate(service, message, "museum") in ("limit", "crowded_out", "enough_facts")


def test_a_memory_without_a_common_word_is_not_found(store: SqliteStore, service: MemoryService) -> None:
    (message,) = say(store, "Dinner was late")
    assert gate(service, message, "boiler") == "not_found"
    embedder = WordEmbedder()
    embed_all(store, embedder)
    service.use_embedder(embedder)
    assert gate(service, message, "journey") == "weak"


def test_what_is_no_longer_true_is_kept_back_unless_the_past_is_asked_for(
    store: SqliteStore, service: MemoryService
) -> None:
    old = learn(store, "The user lives in Porto.", say(store, "I live in Porto")[0])
    new = learn(store, "The user lives in Lisbon.", say(store, "I live in Lisbon now")[0])
    store.add_atoms("", AtomChanges(supersede=((old, new),)), lambda _state: [], MARCH_5 + 1)
    assert gate(service, old, "where does the user live, in Porto?") == "superseded"
    assert gate(service, old, "where did the user live before, in Porto?") == "given"


def test_other_users_and_unknown_ids_are_named(store: SqliteStore, service: MemoryService) -> None:
    (message,) = say(store, "The alarm code is 4711", scope="ada")
    assert gate(service, message, "alarm code") == "other_user"
    assert gate(service, message, "alarm code", user_id="ada") == "given"
    with pytest.raises(NotFound):
        gate(service, "m_nothing", "alarm code")


def test_recall_that_is_switched_off_is_the_first_gate(store: SqliteStore, tmp_path: Path) -> None:
    config = Config.model_validate({"memory": {"recall": {"enabled": False}}})
    service = build_service(store, tmp_path, config=config).service
    (message,) = say(store, "The alarm code is 4711")
    assert gate(service, message, "alarm code") == "recall_off"
    service.close()


def test_the_route_answers_in_json_and_refuses_by_name(store: SqliteStore, service: MemoryService) -> None:
    (message,) = say(store, "The boiler was serviced in May")
    with served(service) as caller:
        answer = caller.post(protocol.WHY_NOT, {"id": message, "query": "boiler", "max_tokens": None})
        assert (answer.status, answer.json["gate"], answer.json["id"]) == (200, "given", message)
        assert caller.post(protocol.WHY_NOT, {"id": "m_nothing", "query": "boiler"}).status == 404
        assert caller.post(protocol.WHY_NOT, {"id": message}).status == 422
