"""Ranking: what is shown, in which order, and what is left out for which reason."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from memory_tencentdb_worker.models import Atom, AtomHit, AtomType, Message, MessageHit
from memory_tencentdb_worker.recall.gather import Finds, VectorFinds, WordFinds
from memory_tencentdb_worker.recall.rank import Candidate, Ranking, fused, rank
from service_parts import MARCH_5, make_atom, make_message


def finds(
    atoms: Sequence[Atom] = (),
    messages: Sequence[Message] = (),
    tail: Sequence[Message] = (),
    rules: Sequence[Atom] = (),
    near: Sequence[tuple[Atom, float]] = (),
    near_messages: Sequence[tuple[Message, float]] = (),
) -> Finds:
    words = WordFinds(
        instructions=list(rules),
        atoms=[AtomHit(atom, 9.0 - place) for place, atom in enumerate(atoms)],
        messages=[MessageHit(message, 9.0 - place) for place, message in enumerate(messages)],
        tail=[MessageHit(message, 9.0 - place) for place, message in enumerate(tail)],
    )
    vectors = VectorFinds(
        tuple(AtomHit(atom, score) for atom, score in near),
        tuple(MessageHit(message, score) for message, score in near_messages),
    )
    return Finds(words, vectors, {})


def ranked(
    found: Finds, *, session_id: str = "now", limit: int = 5, exclude: Sequence[str] = (), terms: Sequence[str] = ()
) -> Ranking:
    return rank(found, terms=terms, session_id=session_id, threshold=0.3, limit=limit, exclude=exclude)


def texts(ranking: Ranking) -> list[str]:
    return [one.text for one in ranking.chosen]


def test_a_hit_in_both_arms_comes_before_a_hit_in_one() -> None:
    one, two, both = make_atom(1, "one"), make_atom(2, "two"), make_atom(3, "both")
    assert texts(ranked(finds(atoms=[one, both], near=[(two, 0.9), (both, 0.8)]))) == ["both", "one", "two"]


def test_a_hit_by_meaning_alone_must_reach_the_threshold() -> None:
    strong, weak = make_atom(1, "strong"), make_atom(2, "weak")
    ranking = ranked(finds(near=[(strong, 0.31), (weak, 0.29)]))
    assert texts(ranking) == ["strong"]
    assert [(one.id, one.reason) for one in ranking.dropped] == [(weak.id, "weak")]


def test_a_hit_that_shares_a_word_needs_no_threshold() -> None:
    atom = make_atom(1, "shared word")
    assert texts(ranked(finds(atoms=[atom], near=[(atom, 0.05)]))) == ["shared word"]


def test_an_atom_stands_for_the_message_it_rests_on_and_takes_its_better_place() -> None:
    message = make_message(1, "I moved to Lisbon last week", session_id="old")
    other, atom = make_atom(1, "Something else"), make_atom(2, "The user moved to Lisbon.", sources=[message.id])
    assert texts(ranked(finds(atoms=[other, atom], tail=[message]))) == ["Something else", "The user moved to Lisbon."]
    first = ranked(finds(atoms=[other, atom], tail=[message], near_messages=[(message, 0.9)]))
    assert texts(first) == ["The user moved to Lisbon.", "Something else"]


def test_a_message_that_holds_more_of_the_question_than_its_atoms_is_shown_beside_them() -> None:
    message = make_message(1, "Ana is my sister, her door code is 4711", session_id="old")
    atom = make_atom(1, "The user's sister is called Ana.", sources=[message.id])
    both = ranked(finds(atoms=[atom], tail=[message]), terms=["ana", "door", "code"])
    assert sorted(texts(both)) == sorted([atom.content, message.text])
    assert texts(ranked(finds(atoms=[atom], tail=[message]), terms=["ana", "sister"])) == [atom.content]


def test_equal_texts_are_shown_once() -> None:
    ranking = ranked(finds(atoms=[make_atom(1, "Likes  tea"), make_atom(2, "likes tea")]))
    assert texts(ranking) == ["Likes  tea"]


def test_unread_messages_of_other_sessions_compete_with_atoms() -> None:
    fresh = make_message(1, "fresh", session_id="other")
    atoms = [make_atom(number, f"atom {number}") for number in range(1, 4)]
    assert texts(ranked(finds(atoms=atoms, tail=[fresh]))) == ["atom 1", "fresh", "atom 2", "atom 3"]


@pytest.mark.parametrize("where", ["messages", "tail"])
def test_read_messages_and_those_of_this_session_only_fill_what_is_left(where: str) -> None:
    message = make_message(1, "said before", session_id="now" if where == "tail" else "other")
    atoms = [make_atom(number, f"atom {number}") for number in range(1, 4)]
    found = finds(atoms=atoms, **{where: [message]})  # type: ignore[arg-type]
    assert texts(ranked(found)) == ["atom 1", "atom 2", "atom 3", "said before"]
    assert texts(ranked(found, limit=3)) == ["atom 1", "atom 2", "atom 3"]


def test_this_session_s_own_messages_come_last_and_are_few() -> None:
    own = [make_message(number, f"own {number}", session_id="now") for number in range(1, 6)]
    older = make_message(9, "older", session_id="other")
    assert texts(ranked(finds(tail=own, messages=[older]))) == ["older", "own 1", "own 2", "own 3"]
    assert len(ranked(finds(tail=own), session_id="").chosen) == 5


def test_standing_rules_are_always_there_and_do_not_count_for_the_limit() -> None:
    rule = make_atom(9, "Always answer in French", type=AtomType.INSTRUCTION, priority=-1)
    ranking = ranked(finds(atoms=[rule, make_atom(1, "atom")], rules=[rule]), limit=1)
    assert [one.text for one in ranking.standing] == ["Always answer in French"]
    assert texts(ranking) == ["atom"]


def test_what_the_session_was_given_already_is_not_given_again() -> None:
    rule = make_atom(9, "rule", type=AtomType.INSTRUCTION, priority=-1)
    atom = make_atom(1, "atom")
    ranking = ranked(finds(atoms=[atom], rules=[rule]), exclude=[atom.id, rule.id])
    assert (ranking.standing, ranking.chosen) == ((), ())
    assert {one.reason for one in ranking.dropped} == {"already given"}


def test_more_than_the_limit_is_named_as_dropped() -> None:
    atoms = [make_atom(number, f"atom {number}") for number in range(1, 5)]
    ranking = ranked(finds(atoms=atoms), limit=2)
    assert [(one.id, one.reason) for one in ranking.dropped] == [(atoms[2].id, "limit"), (atoms[3].id, "limit")]


def test_what_stands_in_the_visible_history_is_left_out_and_what_has_left_it_is_not() -> None:
    seen = make_message(1, "my dog is Bramble", session_id="now", at=MARCH_5)
    compressed = make_message(2, "my cat is Nettle", session_id="now", at=MARCH_5 - 10)
    elsewhere = make_message(3, "my bird is Pip", session_id="other", at=MARCH_5)
    found = finds(messages=[seen, compressed, elsewhere])
    ranking = rank(found, terms=["my"], session_id="now", threshold=0.3, limit=5, visible_since=MARCH_5)
    assert {one.text for one in ranking.chosen} == {"my cat is Nettle", "my bird is Pip"}
    assert [(one.id, one.reason) for one in ranking.dropped] == [(seen.id, "visible")]


def test_a_fact_of_this_session_is_visible_as_long_as_what_it_rests_on() -> None:
    old, new = make_atom(1, "has a cat", at=MARCH_5 - 10), make_atom(2, "has a dog", at=MARCH_5)
    ranking = rank(finds(atoms=[old, new]), terms=[], session_id="s", threshold=0.3, limit=5, visible_since=MARCH_5)
    assert texts(ranking) == ["has a cat"]


def test_a_message_that_a_fact_speaks_for_is_named_in_the_receipt() -> None:
    message = make_message(1, "I moved to Lisbon")
    atom = make_atom(2, "The user moved to Lisbon.", sources=[message.id])
    ranking = ranked(finds(atoms=[atom], messages=[message]), terms=["lisbon"])
    assert [(one.id, one.reason) for one in ranking.dropped] == [(message.id, "said by a fact")]


def test_a_message_lifted_by_others_must_itself_reach_the_threshold_of_a_recall_but_not_of_a_search() -> None:
    lifted = Candidate("l0_1", 0.1, message=make_message(1, "Gyokuro."), lifted=0.5)
    assert fused([], [lifted], 0.3, []) == []
    assert [one.id for one in fused([], [lifted], 0.3, [], lifted_threshold=0.4)] == ["l0_1"]
