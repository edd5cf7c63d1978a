"""L1: what an answer says without evidence is not believed, and what it got wrong is not lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from layer_parts import START, ScriptedLLM, capture, lease, message_ids, parts_of
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.layers import l1_atoms
from memory_tencentdb_worker.layers.outcome import Done, Outcome, Parked
from memory_tencentdb_worker.models import Atom, JobKind, Layer, Page
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.sqlite import open_store

CONFIG = Config()
UNKNOWN = "l0_ffffffffffffffff"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data", START)
    yield opened
    opened.close()


@pytest.fixture
def llm() -> ScriptedLLM:
    return ScriptedLLM()


def extract(store: Store, llm: ScriptedLLM) -> Outcome:
    return l1_atoms.run(lease(store, JobKind.L1, START), parts_of(store, CONFIG, llm), START)


def atoms(store: Store) -> list[Atom]:
    rows = store.list_rows(Layer.L1, Page(limit=100, ascending=True), scope="").rows
    return [row for row in rows if isinstance(row, Atom)]


def said_for(store: Store, atom: Atom) -> list[str]:
    return [message.text for message in store.messages_by_id([source.message_id for source in atom.sources])]


def answer(*memories: tuple[str, list[str]], message_ids: tuple[str, ...] = ()) -> Any:
    filled = [{"content": text, "type": "persona", "source_message_ids": ids} for text, ids in memories]
    return {"scenes": [{"scene_name": "x", "message_ids": list(message_ids), "memories": filled}]}


def test_memory_that_no_message_speaks_of_is_asked_for_again_and_then_parked(store: Store, llm: ScriptedLLM) -> None:
    said = capture(store, CONFIG, "I like kiwi.").message_ids[0]
    llm.script("l1-extraction", answer(("The user is a spy called Bogusman.", [UNKNOWN]), message_ids=(said,)))
    assert extract(store, llm) == Parked("unsupported")
    assert len(llm.asked("l1-extraction")) == 2
    assert atoms(store) == []
    assert [message.text for message in store.unextracted("", 10)] == ["ok", "I like kiwi."]


@pytest.mark.parametrize("ids", [[], [UNKNOWN], ["1"]])
def test_memory_without_a_known_source_goes_to_the_message_whose_words_it_shares(
    store: Store, llm: ScriptedLLM, ids: list[str]
) -> None:
    capture(store, CONFIG, "I like plum.", "Plums are fine.")
    capture(store, CONFIG, "I live in Oslo near Zebrastreet.", "You live in Oslo near Zebrastreet, I see.")
    capture(store, CONFIG, "我住在上海，养了一只猫。")
    llm.script(
        "l1-extraction",
        answer(("The user is living in Oslo near Zebrastreet.", ids), ("用户住在上海。", ids)),
    )
    assert extract(store, llm) == Done(2)
    assert [(atom.content, said_for(store, atom)) for atom in atoms(store)] == [
        ("The user is living in Oslo near Zebrastreet.", ["I live in Oslo near Zebrastreet."]),
        ("用户住在上海。", ["我住在上海，养了一只猫。"]),
    ]


def test_answer_of_which_most_is_refused_is_mended_by_the_second_one(store: Store, llm: ScriptedLLM) -> None:
    capture(store, CONFIG, "I like kiwi.")

    def mended(request: Any) -> Any:
        first = next(iter(message_ids(request).values()))
        return answer(("The user likes kiwi.", [first]))

    llm.script("l1-extraction", answer(("The user is a spy.", [UNKNOWN])), mended)
    assert extract(store, llm) == Done(1)
    assert [atom.content for atom in atoms(store)] == ["The user likes kiwi."]


def test_good_part_of_two_bad_answers_is_kept_and_the_rest_counted(store: Store, llm: ScriptedLLM) -> None:
    capture(store, CONFIG, "I like kiwi.")
    half = answer(("The user likes kiwi.", []), ("The user is a spy.", [UNKNOWN]))
    llm.script("l1-extraction", half, "I am sorry, there is nothing here.")
    assert extract(store, llm) == Done(1, refused=1)
    assert [atom.content for atom in atoms(store)] == ["The user likes kiwi."]


def test_few_refused_items_cost_no_second_call(store: Store, llm: ScriptedLLM) -> None:
    capture(store, CONFIG, "I like kiwi. I like plum.")
    llm.script(
        "l1-extraction",
        answer(("The user likes kiwi.", []), ("The user likes plum.", []), ("The user is a spy.", [])),
    )
    assert extract(store, llm) == Done(2, refused=1)
    assert len(llm.asked("l1-extraction")) == 1


def test_what_was_read_before_and_is_only_repeated_is_no_mistake(store: Store, llm: ScriptedLLM) -> None:
    before = capture(store, CONFIG, "I like kiwi.").message_ids[0]
    llm.script("l1-extraction", answer(("The user likes kiwi.", [before])))
    assert extract(store, llm) == Done(1)
    capture(store, CONFIG, "Good morning.")
    assert extract(store, llm) == Done(0)
    assert len(atoms(store)) == 1
