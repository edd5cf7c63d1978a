"""What a store says of an instant: known by then, valid then, as it was known then."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.turns import HOUR, NOW, add, atom, idle_plan, persona, remember, run_l2, scene, turn
from memory_tencentdb_worker.models import AtomChanges, AtomType, EmbeddingSpace, Filter, Message, NewAtom
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.connection import Database
from memory_tencentdb_worker.store.schema import MIGRATIONS
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store

LATER = NOW + HOUR


def said(store: Store, text: str, at: int) -> Message:
    (id,) = store.add_turn(turn(text, "", at=at), idle_plan, NOW).message_ids
    message = store.message("", id)
    assert message is not None
    return message


def apply(store: Store, *add: NewAtom, supersede: tuple[tuple[str, str], ...] = (), **more: object) -> None:
    changes = AtomChanges(add=add, supersede=supersede, extractor="test", **more)  # type: ignore[arg-type]
    store.add_atoms("", changes, idle_plan, NOW + 9 * HOUR)


def known_at(store: Store, as_of: int) -> list[str]:
    found = [atom.content for atom in store.atoms_known_at("", as_of, 100)]
    hits = store.search_atoms("user", Filter("", as_of=as_of), 100)
    assert sorted(hit.atom.content for hit in hits) == sorted(found)
    return found


def test_a_superseded_atom_is_known_until_its_successor_was_said(store: Store) -> None:
    old = atom("The user lives in Porto.", said(store, "Porto", NOW))
    new = atom("The user lives in Lisbon.", said(store, "Lisbon", LATER), valid_from=NOW - HOUR)
    apply(store, old, new, supersede=((old.id, new.id),))
    assert known_at(store, NOW - 1) == []
    assert known_at(store, NOW) == known_at(store, LATER - 1) == [old.content]
    assert known_at(store, LATER) == [new.content]


def test_what_will_hold_later_does_not_end_what_holds_until_then(store: Store) -> None:
    old = atom("The user lives in Porto.", said(store, "Porto", NOW))
    new = atom("The user lives in Lisbon.", said(store, "Lisbon from next month", NOW + 1), valid_from=LATER)
    apply(store, old, new, supersede=((old.id, new.id),))
    assert known_at(store, LATER - 1) == [old.content]
    assert known_at(store, LATER) == [new.content]


def test_sources_that_were_handed_on_make_no_atom_older(store: Store) -> None:
    old = atom("The user likes tea.", said(store, "tea", NOW))
    new = atom("The user likes tea and cake.", said(store, "cake", LATER), valid_from=NOW)
    apply(store, old, new, supersede=((old.id, new.id),))
    assert known_at(store, NOW) == [old.content]
    assert len(store.atoms_known_at("", LATER, 9)[0].sources) == 2


def test_an_atom_of_then_has_neither_end_nor_later_sources(store: Store) -> None:
    old = atom("The user lives in Porto.", said(store, "Porto", NOW))
    new = atom("The user lives in Lisbon.", said(store, "Lisbon", LATER))
    apply(
        store, old, new, supersede=((old.id, new.id),), confirm=((old.id, atom("x", said(store, "y", LATER)).sources),)
    )
    (then,) = store.atoms_known_at("", NOW, 9)
    assert (then.live, then.valid_to, len(then.sources)) == (True, None, 1)


def test_a_closed_atom_is_known_until_that_was_said(store: Store) -> None:
    old = atom("The user lives in Porto.", said(store, "Porto", NOW))
    apply(store, old)
    apply(store, close=(old.id,), closed_at=LATER)
    assert (known_at(store, LATER - 1), known_at(store, LATER)) == ([old.content], [])


def test_a_late_statement_takes_its_place_in_the_row(store: Store) -> None:
    first, last = (
        atom("The user: Porto", said(store, "a", NOW)),
        atom("The user: Rome", said(store, "c", NOW + 2 * HOUR)),
    )
    apply(store, first, last, supersede=((first.id, last.id),))
    between = atom("The user: Lisbon", said(store, "b", LATER))
    apply(store, between, supersede=((between.id, last.id),))
    row = [known_at(store, NOW + hours * HOUR) for hours in range(3)]
    assert row == [[first.content], [between.content], [last.content]]
    ended = store.atom("", first.id)
    assert ended is not None
    assert ended.superseded_by == between.id


def test_rules_of_then_stand_then(store: Store) -> None:
    rule = atom("Answer the user in verse.", said(store, "v", NOW), type=AtomType.INSTRUCTION, priority=-1)
    apply(store, rule)
    apply(store, close=(rule.id,), closed_at=LATER)
    assert [one.id for one in store.standing_instructions("", NOW)] == [rule.id]
    assert store.standing_instructions("", LATER) == store.standing_instructions("", NOW - 1) == []


def test_messages_of_later_are_found_neither_by_words_nor_by_meaning(store: Store) -> None:
    store.use_space(EmbeddingSpace("openai", "small", 2))
    first = said(store, "the harbour of Porto", NOW)
    said(store, "the harbour of Lisbon", LATER)
    store.put_vectors([(text, [1.0, 0.5]) for text in store.texts_to_embed(9)], "", NOW)
    seen = Filter("", as_of=NOW)
    assert [hit.message.id for hit in store.search_messages("harbour", seen, 9)] == [first.id]
    assert [hit.message.id for hit in store.nearest_messages([1.0, 0.5], seen, 9)] == [first.id]


def test_an_instant_shows_no_other_users_memory(store: Store) -> None:
    remember(store, "The user lives in Porto.", scope="other")
    assert known_at(store, NOW) == []


def test_documents_are_those_that_had_been_written(store: Store) -> None:
    known = remember(store, "The user lives in Porto.")
    run_l2(store, scene("Home", ("Porto", [known.id])))
    evidence = turn("edited", "", session="owner")
    store.edit_documents("", [], persona(("Porto", [known.id]), at=LATER), evidence, LATER)
    before, scenes = store.documents_at("", NOW)
    after, _ = store.documents_at("", LATER)
    assert (before, [one.name for one in scenes]) == (None, ["Home"])
    assert after is not None
    assert store.documents_at("", NOW - 1) == (None, [])


def test_an_older_database_learns_when_its_atoms_were_said(tmp_path: Path) -> None:
    store = open_store(tmp_path, NOW)
    old = atom("The user lives in Porto.", said(store, "Porto", NOW))
    new = atom("The user lives in Lisbon.", said(store, "Lisbon", LATER), valid_from=NOW)
    apply(store, old, new, supersede=((old.id, new.id),))
    _learn_again(store)
    assert [known_at(store, NOW), known_at(store, LATER)] == [[old.content], [new.content]]
    store.close()


def _learn_again(store: SqliteStore) -> None:
    """As a database is found that was written before: with both columns empty, filled by the migration."""
    database: Database = store._database
    script = next(script for _, script in MIGRATIONS if "said_at" in script)
    with database.write() as connection:
        connection.execute("update atoms set said_at = 0, end_said_at = null")
        connection.execute(script[script.index("update atoms") :])


@pytest.mark.parametrize("day", [0, 1])
def test_what_was_said_at_the_instant_itself_is_known(store: Store, day: int) -> None:
    add(store, "The user says hello", "", at=NOW + day)
    assert bool(store.search_messages("hello", Filter("", as_of=NOW), 5)) is (day == 0)
