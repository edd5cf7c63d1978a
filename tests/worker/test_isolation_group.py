"""Several people in one session: each fact belongs to the one who said it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from layer_parts import START, ScriptedLLM, capture, lease, message_ids, parts_of
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.layers import l1_atoms
from memory_tencentdb_worker.models import CompletionRequest, JobKind, Layer, Page
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.sqlite import open_store

CONFIG = Config()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data", START)
    yield opened
    opened.close()


def contents(store: Store) -> list[str]:
    return [row.content for row in store.list_rows(Layer.L1, Page(20, ascending=True), scope=None).rows]  # type: ignore[union-attr]


def extract(store: Store, llm: ScriptedLLM | None) -> None:
    l1_atoms.run(lease(store, JobKind.L1, START), parts_of(store, CONFIG, llm), START)


def as_if_one_spoke(request: CompletionRequest) -> Any:
    """A model that takes everybody for the user."""
    told = {"rowing": "The user's hobby is rowing.", "Lisbon": "The user lives in Lisbon."}
    memories = [
        {"content": content, "type": "persona", "source_message_ids": [id]}
        for text, id in message_ids(request).items()
        for word, content in told.items()
        if word in text
    ]
    return [{"scene_name": "group", "message_ids": [], "memories": memories}]


@pytest.mark.parametrize("with_model", [True, False], ids=["model", "offline"])
def test_fact_is_told_of_the_one_who_said_it(store: Store, with_model: bool) -> None:
    capture(store, CONFIG, "[Ann Lee] I live in Lisbon.", turn_id="a")
    capture(store, CONFIG, "[Bob] My hobby is rowing.", turn_id="b")
    llm = ScriptedLLM()
    llm.script("l1-extraction", as_if_one_spoke)
    llm.script("l1-reconcile", [])
    extract(store, llm if with_model else None)
    assert any("Ann Lee" in one and "Lisbon" in one for one in contents(store))
    assert any("Bob" in one and "rowing" in one for one in contents(store))
    assert not any("user" in one.lower() for one in contents(store))


def test_mark_in_brackets_is_no_speaker_where_one_person_speaks(store: Store) -> None:
    capture(store, CONFIG, "[Draft] I live in Lisbon.", turn_id="a")
    capture(store, CONFIG, "I like tea.", turn_id="b")
    llm = ScriptedLLM()
    llm.script("l1-extraction", as_if_one_spoke)
    extract(store, llm)
    assert contents(store) == ["The user lives in Lisbon."]
