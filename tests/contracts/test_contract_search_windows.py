"""What a message is found by beside its own words: neighbours, atoms, speaker, time. In every store."""

from __future__ import annotations

import pytest

from contracts.turns import NOW, add, atom, idle_plan, remember
from memory_tencentdb_worker.models import AtomChanges, Filter, Preference, Role
from memory_tencentdb_worker.store.base import Store

DAY = 86_400_000


def texts(store: Store, query: str, filter: Filter = Filter(""), limit: int = 10) -> list[str]:  # noqa: B008
    return [hit.message.text for hit in store.search_messages(query, filter, limit)]


def test_an_answer_is_found_by_the_words_of_its_question(store: Store) -> None:
    add(store, "We had a long day.", "Tell me.")
    add(store, "Which city did you emigrate to?", "Porto, in the end.")
    for number in range(10):
        add(store, f"Something else {number}", "Quite so.", session=f"other{number}")
    assert set(texts(store, "emigrate", limit=2)) == {"Which city did you emigrate to?", "Porto, in the end."}


def test_neighbours_count_less_the_farther_away_they_are(store: Store) -> None:
    for said in ("one zebra", "two", "three", "four", "five", "six"):
        add(store, said, "")
    assert texts(store, "zebra") == ["one zebra", "two", "three", "four", "five"]


def test_a_window_never_crosses_a_session(store: Store) -> None:
    add(store, "the zebra again", "", session="a")
    add(store, "another session", "", session="b")
    add(store, "another talk under the same key", "", session="a", session_id="a2")
    assert texts(store, "zebra") == ["the zebra again"]


def test_interleaved_sessions_have_windows_of_their_own(store: Store) -> None:
    add(store, "where is the zebra", "", session="a")
    add(store, "noise", "", session="b")
    add(store, "behind the house", "", session="a")
    assert texts(store, "zebra") == ["where is the zebra", "behind the house"]


def test_a_message_that_comes_late_is_a_neighbour_at_once(store: Store) -> None:
    add(store, "what about the zebra", "", turn_id="t1")
    assert texts(store, "zebra") == ["what about the zebra"]
    add(store, "what about the zebra", "It sleeps.", turn_id="t1")
    assert texts(store, "zebra") == ["what about the zebra", "It sleeps."]


def test_a_pasted_page_does_not_lend_its_words_to_its_neighbours(store: Store) -> None:
    add(store, "zebra " + "lorem ipsum dolor " * 2_000, "Thank you for the page.", session="a")
    add(store, "a small zebra", "How nice.", session="b")
    assert texts(store, "zebra")[:2] == ["a small zebra", "How nice."]


def test_neighbours_of_another_scope_are_never_seen(store: Store) -> None:
    add(store, "zebra of alice", "hers", scope="alice")
    add(store, "nothing of bob", "his", scope="bob")
    assert texts(store, "zebra", Filter("bob")) == []
    assert set(texts(store, "zebra", Filter("alice"))) == {"zebra of alice", "hers"}


def test_an_atom_is_a_key_to_the_messages_it_rests_on(store: Store) -> None:
    remember(store, "The user is allergic to peanuts.", said="Even a trace of them makes me ill.", session="a")
    add(store, "I like peanut-free bakeries in general.", "", session="b")
    assert "Even a trace of them makes me ill." in texts(store, "allergic", Filter(""))
    assert texts(store, "allergic", Filter("bob")) == []
    assert texts(store, "allergic", Filter("", session_key="b")) == []


def test_superseded_atoms_are_found_only_when_asked_for(store: Store) -> None:
    old = remember(store, "The user lives in Berlin.")
    message = store.messages_by_id([source.message_id for source in remember(store, "moved").sources])[0]
    new = atom("The user lives in Lisbon.", message)
    store.add_atoms("", AtomChanges(add=(new,), supersede=((old.id, new.id),)), idle_plan, NOW)
    found = store.search_atoms("lives", Filter(""), 5)
    assert [hit.atom.content for hit in found] == ["The user lives in Lisbon."]
    past = store.search_atoms("lives", Filter("", superseded=True), 5)
    assert {hit.atom.content for hit in past} == {"The user lives in Lisbon.", "The user lives in Berlin."}
    assert {hit.atom.live for hit in past} == {True, False}


@pytest.mark.parametrize(
    ("asked", "said"), [("go", "They went home."), ("bought", "I buy flowers."), ("child", "two children")]
)
def test_irregular_forms_are_one_word(store: Store, asked: str, said: str) -> None:
    add(store, said, "")
    assert texts(store, asked) == [said]


def test_the_speaker_that_is_named_comes_first(store: Store) -> None:
    add(store, "Ann: the piano is my favourite thing", "", session="a")
    add(store, "Bob: the piano is my favourite thing", "", session="b")
    assert texts(store, "what does Ann say about the piano")[0].startswith("Ann:")
    assert texts(store, "what does Bob say about the piano")[0].startswith("Bob:")


def test_a_preferred_time_moves_up_and_leaves_nothing_out(store: Store) -> None:
    add(store, "dentist in spring", "", session="a", at=NOW - 100 * DAY)
    add(store, "dentist in autumn", "", session="b", at=NOW)
    for at in (NOW, NOW - 100 * DAY):
        spans = ((at - DAY, at + DAY),)
        found = store.search_messages("dentist", Filter("", prefer=Preference(spans=spans)), 5)
        assert len(found) == 2
        assert found[0].message.sent_at == at


def test_a_preferred_role_and_the_latest_move_up(store: Store) -> None:
    add(store, "coffee from Kenya", "coffee from Peru", session="a")
    add(store, "coffee from Japan", "", session="b")
    prefer = Filter("", prefer=Preference(role=Role.ASSISTANT))
    assert texts(store, "coffee", prefer)[0] == "coffee from Peru"
    assert texts(store, "coffee", Filter("", prefer=Preference(latest=True)))[0] == "coffee from Japan"


def test_a_word_of_most_messages_is_left_out_only_beside_a_rarer_one(store: Store) -> None:
    for number in range(260):
        add(store, f"report number{number}", "", session=f"s{number // 50}")
    assert texts(store, "report number7", limit=1) == ["report number7"]
    assert len(texts(store, "report", limit=20)) == 20
