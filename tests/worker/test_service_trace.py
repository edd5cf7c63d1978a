"""`why`: from any id down to the very messages, with hashes that are checked; and scenes that can be read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import apsw
import pytest

from memory_tencentdb.wire import MemorySearchRequest, RecallRequest
from memory_tencentdb_worker.errors import NotFound
from memory_tencentdb_worker.models import (
    Line,
    NewMessage,
    NewTurn,
    Origin,
    Persona,
    Role,
    Scene,
    SceneChange,
    Section,
)
from memory_tencentdb_worker.service.inspection import Inspection
from memory_tencentdb_worker.service.trace import trace
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from service_parts import MARCH_5, build_service, learn, say


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = open_store(tmp_path / "data", MARCH_5)
    yield opened
    opened.close()


def write_documents(store: SqliteStore, atom: str, *, scope: str = "") -> None:
    """One scene that rests on the atom, and a persona that rests on the scene."""
    scene = Scene(
        scope=scope, name="Moving house", revision=1, summary="The move to Lisbon", heat=1, created_at=MARCH_5,
        updated_at=MARCH_5, sections=(Section("Where", (Line("Moved to Lisbon", (atom,)),)),),
    )  # fmt: skip
    persona = Persona(
        scope=scope, revision=1, created_at=MARCH_5, reason="test",
        sections=(Section("Home", (Line("Lives in Lisbon", ("Moving house",)),)),),
    )  # fmt: skip
    evidence = NewTurn(
        scope,
        "edit",
        "owner",
        "",
        (NewMessage(Role.USER, "edited", MARCH_5, Origin.OWNER_EDIT),),
        MARCH_5,
        "owner-edit",
    )
    store.edit_documents(scope, [SceneChange("edit", scene)], persona, evidence, MARCH_5)


@pytest.mark.parametrize("name", ["Moving house", "Moving house.md", "scene_blocks/Moving house.md"])
def test_a_scene_is_followed_down_to_its_messages(store: SqliteStore, name: str) -> None:
    (message,) = say(store, "We moved to Lisbon")
    write_documents(store, learn(store, "The user moved to Lisbon.", message))
    found = trace(name, store, UTC)
    assert (found.layer, found.text) == ("L2", "## Where\n- Moved to Lisbon")
    assert [(one.id, one.text, one.hash_ok) for one in found.messages] == [(message, "We moved to Lisbon", True)]


@pytest.mark.parametrize("name", ["persona", "persona.md"])
def test_a_persona_is_followed_through_its_scenes(store: SqliteStore, name: str) -> None:
    (message,) = say(store, "We moved to Lisbon")
    write_documents(store, learn(store, "The user moved to Lisbon.", message))
    found = trace(name, store, UTC)
    assert (found.layer, [one.id for one in found.messages]) == ("L3", [message])


def test_an_atom_shows_its_messages_in_the_order_of_the_conversation(store: SqliteStore) -> None:
    first, _ = say(store, "I like tea", "Noted")
    atom = learn(store, "Likes tea.", first)
    found = trace(atom, store, UTC)
    assert (found.layer, found.text) == ("L1", "Likes tea.")
    (message,) = found.messages
    assert (message.role, message.at, message.session_key) == ("user", "2026-03-05T10:10:00+00:00", "k")


def test_the_id_that_capture_gave_a_turn_leads_to_its_messages(store: SqliteStore) -> None:
    ids = say(store, "I like tea", "Noted", turn_id="t_abc", scope="alice")
    assert [one.id for one in trace("t_abc", store, UTC).messages] == list(ids)


def test_a_message_that_was_changed_behind_our_back_is_told(store: SqliteStore, tmp_path: Path) -> None:
    (message,) = say(store, "I like tea")
    atom = learn(store, "Likes tea.", message)
    connection = apsw.Connection(str(tmp_path / "data" / "memory.db"))
    connection.execute("update messages set text = 'I like beer' where id = ?", (message,))
    connection.close()
    assert [one.hash_ok for one in trace(atom, store, UTC).messages] == [False]
    assert [one.hash_ok for one in trace(message, store, UTC).messages] == [False]


def test_a_scope_sees_only_its_own_ids_and_the_owner_all(store: SqliteStore) -> None:
    (message,) = say(store, "I like tea", scope="alice")
    assert trace(message, store, UTC).id == message
    assert trace(message, store, UTC, "alice").id == message
    with pytest.raises(NotFound):
        trace(message, store, UTC, "bob")


def test_every_scene_that_the_context_names_can_be_read_by_the_search_tool(store: SqliteStore, tmp_path: Path) -> None:
    (message,) = say(store, "We moved to Lisbon")
    write_documents(store, learn(store, "The user moved to Lisbon.", message))
    service = build_service(store, tmp_path).service
    stable = service.recall(RecallRequest("", "k")).append_system_context
    assert "- Moving house: The move to Lisbon" in stable
    assert "- Lives in Lisbon" in stable
    answer = service.search_memories(MemorySearchRequest("what about it", scene="Moving house"))
    assert (answer.items[0].layer, answer.items[0].id) == ("L2", "Moving house")
    assert "Moved to Lisbon" in answer.results


def test_the_stable_part_stays_the_same_while_turns_come_in(store: SqliteStore, tmp_path: Path) -> None:
    (message,) = say(store, "We moved to Lisbon")
    write_documents(store, learn(store, "The user moved to Lisbon.", message))
    service = build_service(store, tmp_path).service
    parts = set()
    for number in range(5):
        say(store, f"another turn about Lisbon {number}")
        answer = service.recall(RecallRequest("Lisbon", "k"))
        parts.add(answer.append_system_context)
        assert answer.context == f"{answer.append_system_context}\n\n{answer.prepend_context}"
    assert len(parts) == 1


def test_scenes_and_persona_are_inspected_in_full(store: SqliteStore, tmp_path: Path) -> None:
    (message,) = say(store, "We moved to Lisbon")
    write_documents(store, learn(store, "The user moved to Lisbon.", message))
    service = build_service(store, tmp_path).service
    (row,) = service.inspect(Inspection(level="L2"))["data"]
    assert (row["filename"], row["heat"], row["summary"]) == ("Moving house.md", 1, "The move to Lisbon")
    assert "Moved to Lisbon" in service.inspect(Inspection(level="L2", file="Moving house.md"))["data"]["content"]
    assert service.scene("Moving house")["content"] == "## Where\n- Moved to Lisbon"
    assert "Lives in Lisbon" in service.inspect(Inspection(level="L3"))["data"][0]["content"]


def test_without_a_user_the_default_users_scene_comes_first(store: SqliteStore, tmp_path: Path) -> None:
    own = learn(store, "likes tea", say(store, "I like tea")[0])
    hers = learn(store, "likes rum", say(store, "I like rum", scope="ada")[0], scope="ada")
    write_documents(store, own)
    write_documents(store, hers, scope="ada")  # later, so that it is the newest of this name
    service = build_service(store, tmp_path).service
    (name,) = {scene.name for scene in store.scenes("")}
    for asked in (name, f"{name}.md", f"scene_blocks/{name}.md"):
        assert [message.text for message in service.why(asked).messages] == ["I like tea"]
        assert [message.text for message in service.why(asked, "ada").messages] == ["I like rum"]
    assert (service.scene(name)["userId"], service.scene(name, "ada")["userId"]) == ("", "ada")
