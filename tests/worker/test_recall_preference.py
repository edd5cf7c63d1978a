"""What a question's own words do to an answer: its time, the latest, the past; and how two arms are added up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.models import AtomChanges, AtomHit, AtomType, MessageHit, NewAtom, Preference, Role, Source
from memory_tencentdb_worker.recall.answer import Question, Recaller
from memory_tencentdb_worker.recall.deadline import Deadline
from memory_tencentdb_worker.recall.gather import Finds, VectorFinds, WordFinds
from memory_tencentdb_worker.recall.rank import atom_candidates, fused, preferred, rank
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from memory_tencentdb_worker.text.ids import atom_id
from service_parts import MARCH_5, learn, make_atom, make_message, say

DAY = 86_400_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = open_store(tmp_path / "data", MARCH_5)
    yield opened
    opened.close()


@pytest.fixture
def recaller(store: SqliteStore) -> Iterator[Recaller]:
    made = Recaller(store, Config(), UTC)
    yield made
    made.close()


def replaced(store: SqliteStore) -> tuple[str, str]:
    """A home that was left on MARCH_5. Ids of the atoms before and after."""
    (first,) = say(store, "I live in Berlin", session_id="old", at=MARCH_5 - 90 * DAY)
    old = learn(store, "The user lives in Berlin.", first)
    (second,) = say(store, "I live in Lisbon", session_id="newer")
    message = store.message("", second)
    assert message is not None
    content = "The user lives in Lisbon."
    new = NewAtom(
        id=atom_id("", AtomType.PERSONA, content, [second]), type=AtomType.PERSONA, content=content, priority=70,
        scene_name="", origin=message.origin, sources=(Source(second, message.hash),), session_key="k", session_id="",
    )  # fmt: skip
    store.add_atoms("", AtomChanges(add=(new,), supersede=((old, new.id),)), lambda _state: [], MARCH_5)
    return old, new.id


def recalled(recaller: Recaller, query: str) -> str:
    question = Question(query, "", "now", MARCH_5)
    return recaller.recall(question, "ok", Deadline(2000)).prepend_context


def test_what_is_no_longer_true_is_shown_only_when_the_past_is_asked_for(
    store: SqliteStore, recaller: Recaller
) -> None:
    old, new = replaced(store)
    assert new in recalled(recaller, "which city does the user live in")
    assert old not in recalled(recaller, "which city does the user live in")
    past = recalled(recaller, "which city did the user live in previously")
    assert f"until 2026-03-05: The user lives in Berlin. ({old})" in past


def test_search_marks_what_is_no_longer_true(store: SqliteStore, recaller: Recaller) -> None:
    old, new = replaced(store)
    now = recaller.search_memories("lives", "", limit=5, now=MARCH_5)
    assert [item.id for item in now.items] == [new]
    past = recaller.search_memories("lives originally", "", limit=5, now=MARCH_5)
    assert {item.id for item in past.items} == {old, new}
    assert "until 2026-03-05" in past.results


def test_a_conversation_of_the_day_that_is_asked_for_comes_first(store: SqliteStore, recaller: Recaller) -> None:
    (older,) = say(store, "Dinner with Ravi", session_id="a", at=MARCH_5 - 60 * DAY)
    (yesterday,) = say(store, "Dinner with Ravi again", session_id="b", at=MARCH_5 - DAY)
    search = recaller.search_conversations
    found = search("dinner with Ravi in January", "", limit=5, now=MARCH_5, session_key=None)
    assert [item.id for item in found.items] == [older, yesterday]
    found = search("dinner with Ravi yesterday", "", limit=5, now=MARCH_5, session_key=None)
    assert [item.id for item in found.items] == [yesterday, older]


def test_atoms_of_the_time_that_is_asked_for_move_up() -> None:
    early, late = make_atom(1, "early", activity_start=MARCH_5 - 90 * DAY), make_atom(2, "late")
    hits = atom_candidates([AtomHit(late, 5.0), AtomHit(early, 4.0)])
    spans = ((MARCH_5 - 91 * DAY, MARCH_5 - 89 * DAY),)
    assert [one.text for one in preferred(hits, Preference(spans=spans))] == ["early", "late"]
    assert [one.text for one in preferred(hits, Preference())] == ["late", "early"]


def test_the_newest_atom_moves_up_when_the_latest_is_asked_for() -> None:
    hits = atom_candidates([AtomHit(make_atom(1, "older"), 5.0), AtomHit(make_atom(2, "newer"), 4.5)])
    assert [one.text for one in preferred(hits, Preference(latest=True))] == ["newer", "older"]


def test_scores_are_added_and_not_places() -> None:
    atoms = [make_atom(number, f"atom {number}") for number in range(3)]
    worded = atom_candidates([AtomHit(atoms[0], 9.0), AtomHit(atoms[1], 8.9), AtomHit(atoms[2], 1.0)])
    near = atom_candidates([AtomHit(atoms[2], 0.8), AtomHit(atoms[1], 0.6)])
    assert [one.text for one in fused(worded, near, 0.3, [])] == ["atom 1", "atom 0", "atom 2"]


def test_a_short_answer_that_holds_no_word_of_the_question_is_not_given() -> None:
    noted, said = make_message(1, "Noted.", role=Role.ASSISTANT), make_message(2, "My dentist is Dr. Okafor")
    words = WordFinds(messages=[MessageHit(said, 2.0), MessageHit(noted, 1.0)])
    ranking = rank(Finds(words, VectorFinds(), {}), terms=["dentist"], session_id="now", threshold=0.3, limit=5)
    assert [one.text for one in ranking.chosen] == ["My dentist is Dr. Okafor"]
    assert [(one.id, one.reason) for one in ranking.dropped] == [(noted.id, "weak")]
