"""The host's own memory tool, mirrored with its provenance."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from layer_parts import START, ScriptedLLM, lease, parts_of
from memory_tencentdb.wire import MemoryWriteRequest, MemoryWriteResponse
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.layers import l1_atoms
from memory_tencentdb_worker.layers.memory_write import write_memory
from memory_tencentdb_worker.layers.outcome import Done
from memory_tencentdb_worker.models import AtomType, JobKind, Layer, Origin, Page
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.sqlite import open_store

CONFIG = Config()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data", START)
    yield opened
    opened.close()


def write(store: Store, action: str, content: str, **more: Any) -> MemoryWriteResponse:
    request = MemoryWriteRequest(action, more.pop("target", "user"), content, "s1", **more)
    return write_memory(request, store, CONFIG, UTC, START)


def live(store: Store, scope: str = "") -> list[str]:
    rows = store.list_rows(Layer.L1, Page(ascending=True), scope=scope).rows
    return [row.content for row in rows if getattr(row, "live", False)]  # type: ignore[union-attr]


def test_added_entry_is_an_atom_that_rests_on_the_written_text(store: Store) -> None:
    answer = write(store, "add", "Ada is allergic to hazelnuts.")
    atom = store.atom("", answer.atom_ids[0])
    assert atom is not None
    assert (atom.type, atom.origin, atom.extractor) == (AtomType.PERSONA, Origin.BUILTIN_MEMORY, "builtin-memory")
    (message,) = store.messages_by_id([source.message_id for source in atom.sources])
    assert (message.text, message.origin) == ("Ada is allergic to hazelnuts.", Origin.BUILTIN_MEMORY)


def test_entry_of_the_agents_memory_is_a_rule_when_it_reads_like_one(store: Store) -> None:
    rule = write(store, "add", "Always run the linter first.", target="memory").atom_ids[0]
    note = write(store, "add", "The repository moved to GitLab.", target="memory").atom_ids[0]
    types = {atom.id: atom.type for atom in store.atoms_by_id([rule, note])}
    assert types == {rule: AtomType.INSTRUCTION, note: AtomType.EPISODIC}


def test_same_write_again_changes_nothing(store: Store) -> None:
    first = write(store, "add", "Ada likes tea.", write_id="w1")
    assert write(store, "add", "Ada likes tea.", write_id="w1").atom_ids == first.atom_ids
    assert live(store) == ["Ada likes tea."]
    assert store.counts("").messages == 1


def test_write_id_used_for_several_texts_keeps_them_all_whatever_is_replayed(store: Store) -> None:
    first = write(store, "add", "Ada likes tea.", write_id="w1")
    second = write(store, "add", "Ada likes chess.", write_id="w1")
    for _ in range(2):
        assert write(store, "add", "Ada likes tea.", write_id="w1") == first
        assert write(store, "add", "Ada likes chess.", write_id="w1") == second
    assert live(store) == ["Ada likes tea.", "Ada likes chess."]
    for answer in (first, second):
        atom = store.atom("", answer.atom_ids[0])
        assert atom is not None
        assert [message.text for message in store.messages_by_id([one.message_id for one in atom.sources])] == [
            atom.content
        ]


def test_replaced_entry_is_superseded(store: Store) -> None:
    old = write(store, "add", "Ada lives in Berlin.").atom_ids
    answer = write(store, "replace", "Ada lives in Lisbon.", old_text="in Berlin")
    assert answer.superseded_ids == old
    assert live(store) == ["Ada lives in Lisbon."]


def test_removed_entry_is_closed_and_only_in_its_scope(store: Store) -> None:
    write(store, "add", "Ada likes tea.")
    write(store, "add", "Ada likes tea.", user_id="other")
    assert len(write(store, "remove", "", old_text="Ada likes tea.").superseded_ids) == 1
    assert live(store) == []
    assert live(store, "other") == ["Ada likes tea."]


def test_extraction_passes_over_mirrored_text_without_a_call(store: Store) -> None:
    write(store, "add", "Ada likes tea.")
    llm = ScriptedLLM()
    assert l1_atoms.run(lease(store, JobKind.L1, START), parts_of(store, CONFIG, llm), START) == Done(0)
    assert llm.requests == []


@pytest.mark.parametrize(
    "field", [{"action": "burn"}, {"target": "disk"}, {"session_key": ""}, {"write_id": "x" * 200}]
)
def test_wrong_requests_are_refused(store: Store, field: dict[str, str]) -> None:
    fields = {"action": "add", "target": "user", "content": "x", "session_key": "s1", **field}
    with pytest.raises(InvalidInput):
        write_memory(MemoryWriteRequest(**fields), store, CONFIG, UTC, START)  # type: ignore[arg-type]
