"""How far a forgetting reaches: chains longer than the sources that are handed on, shared messages, other users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_tencentdb_worker.models import (
    AtomChanges,
    AtomType,
    Line,
    NewAtom,
    NewMessage,
    NewTurn,
    Origin,
    Role,
    Scene,
    SceneChange,
    Section,
    Source,
)
from memory_tencentdb_worker.store.forget_plan import Selection
from memory_tencentdb_worker.store.forgetting import Forgetting
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from memory_tencentdb_worker.text.ids import atom_id, text_hash

START = 1_772_705_400_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = open_store(tmp_path, START)
    yield opened
    opened.close()


def say(store: SqliteStore, text: str, number: int, scope: str = "") -> str:
    message = NewMessage(Role.USER, text, START + number, Origin.USER)
    turn = NewTurn(scope, f"t{number}", "s", "s", (message,), START + number, "test")
    return store.add_turn(turn, lambda _: [], START + number).message_ids[0]


def learn(store: SqliteStore, content: str, message: str, now: int, instead_of: str = "", scope: str = "") -> str:
    text = store.messages_by_id([message])[0].text
    id = atom_id(scope, AtomType.PERSONA, content, [message])
    new = NewAtom(
        id, AtomType.PERSONA, content, 70, "", Origin.USER, (Source(message, text_hash(text)),), "s", "s"
    )  # fmt: skip
    pairs = ((instead_of, id),) if instead_of else ()
    store.add_atoms(scope, AtomChanges(add=(new,), supersede=pairs, extractor="test"), lambda _: [], now)
    return id


def forget(store: SqliteStore, wanted: Selection, now: int) -> None:
    forgetting = Forgetting(store)
    found = forgetting.look(wanted)
    assert found is not None
    forgetting.delete(found, wanted.matching, "f_1", now)


def test_every_former_version_goes_though_its_sources_were_not_all_handed_on(store: SqliteStore) -> None:
    atom = ""
    for number in range(70):
        message = say(store, f"Now I weigh {number} stones.", number)
        atom = learn(store, f"The user weighs {number} stones.", message, START + number, atom)
    other = learn(store, "The user likes tea.", say(store, "I like tea.", 99), START + 99)
    forget(store, Selection(None, ids=(atom,)), START + 200)
    counts = store.counts()
    assert (counts.messages, counts.atoms, counts.superseded) == (1, 1, 0)
    assert store.atom("", other) is not None


def test_a_later_value_stays_when_a_former_one_is_forgotten(store: SqliteStore) -> None:
    porto = learn(store, "The user lives in Porto.", say(store, "I live in Porto.", 1), START + 1)
    lisbon = learn(store, "The user lives in Lisbon.", say(store, "I live in Lisbon.", 2), START + 2, porto)
    forget(store, Selection(None, ids=(porto,)), START + 10)
    left = store.atom("", lisbon)
    assert left is not None
    assert left.live
    assert len(left.sources) == 1


def test_another_users_memory_of_the_same_words_stays(store: SqliteStore) -> None:
    say(store, "The code is 4711.", 1)
    mine = say(store, "The code is 4711.", 2, scope="other")
    forget(store, Selection("", matching="4711"), START + 10)
    assert [one.id for one in store.messages_by_id([mine])] == [mine]
    assert store.counts("").messages == 0


def test_a_forgotten_fact_is_not_drawn_again_from_what_was_said_before(store: SqliteStore) -> None:
    first, second = say(store, "I own a boat.", 1), say(store, "My boat again.", 2)
    atom = learn(store, "The user owns a boat.", first, START + 3)
    forget(store, Selection(None, ids=(atom,)), START + 10)
    learn(store, "The user owns a boat.", second, START + 20)
    assert store.counts().atoms == 0
    later = say(store, "I bought a boat at last.", 30)
    learn(store, "The user owns a boat.", later, START + 31)
    assert store.counts().atoms == 1, "said anew, it is known anew"


def test_a_word_that_only_the_forgotten_had_goes_from_names_headings_and_summaries(store: SqliteStore) -> None:
    boat = learn(store, "The user owns the boat Krumbulak.", say(store, "My boat is Krumbulak.", 1), START + 1)
    tea = learn(store, "The user likes tea.", say(store, "I like tea.", 2), START + 2)
    both = Line("Drinks tea on the boat.", (boat, tea))
    sections = (Section("Krumbulak", (both, Line("Has a boat.", (boat,)))), Section("Habits", (Line("Tea.", (tea,)),)))
    scene = Scene("", "krumbulak-days", 0, "All about Krumbulak", sections, 1, START, START)
    evidence = NewTurn("", "e", "owner", "", (NewMessage(Role.USER, "made", START, Origin.OWNER_EDIT),), START, "test")
    store.edit_documents("", [SceneChange("edit", scene)], None, evidence, START + 3)
    forget(store, Selection(None, ids=(boat,)), START + 10)
    (left,) = store.scenes("")
    assert "krumbulak" not in repr((left, store.scene_revisions("", left.name))).lower()
    assert [line.text for section in left.sections for line in section.lines] == ["Tea."]
    assert not store.scene_revisions("", "krumbulak-days")
    assert not store.scene("", "krumbulak-days")
