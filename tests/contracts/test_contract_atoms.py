"""L1 of every store: atoms come with true provenance, and nothing that was true is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contracts.turns import HOUR, NOW, add, atom, batch, each_turn, idle_plan, lease, remember, source, turn
from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import (
    Atom,
    AtomChanges,
    AtomType,
    Due,
    Filter,
    JobKind,
    Message,
    SessionState,
    Source,
)
from memory_tencentdb_worker.store.base import Store


def said(store: Store, text: str, *, scope: str = "", at: int = NOW, session: str = "s1") -> Message:
    ids = add(store, text, "", scope=scope, at=at, session=session)
    message = store.message(scope, ids[0])
    assert message is not None
    return message


def apply(store: Store, changes: AtomChanges, scope: str = "", now: int = NOW) -> list[Atom]:
    return store.add_atoms(scope, changes, idle_plan, now)


def test_atom_keeps_every_field_and_its_sources(store: Store) -> None:
    first, second = said(store, "We moved in May."), said(store, "To Lisbon.")
    new = replace(
        atom("The user moved to Lisbon.", second, first, type=AtomType.EPISODIC, priority=70, scene="Move"),
        activity_start=NOW - HOUR,
        activity_end=NOW,
    )
    (made,) = apply(store, AtomChanges(add=(new,), extractor="model:m"), now=NOW + 9)

    assert made == store.atom("", new.id)
    assert (made.id, made.type, made.content, made.priority) == (new.id, AtomType.EPISODIC, new.content, 70)
    assert (made.scene_name, made.extractor, made.session_key) == ("Move", "model:m", "s1")
    assert (made.activity_start, made.activity_end) == (NOW - HOUR, NOW)
    assert (made.recorded_from, made.live, made.valid_to) == (NOW + 9, True, None)
    assert made.sources == (source(first), source(second))


def test_validity_begins_when_the_first_source_was_said(store: Store) -> None:
    early, late = said(store, "a", at=NOW - HOUR), said(store, "b", at=NOW)
    (made,) = apply(store, AtomChanges(add=(atom("x", late, early),)))
    (dated,) = apply(store, AtomChanges(add=(atom("y", late, valid_from=5),)))
    assert made.valid_from == NOW - HOUR
    assert dated.valid_from == 5


def test_atom_without_a_true_source_is_refused_whole(store: Store) -> None:
    message, foreign = said(store, "mine"), said(store, "of bob", scope="bob")
    good = atom("good", message)
    for sources in (
        (),
        (Source("l0_unknown", message.hash),),
        (Source(message.id, "0" * 64),),
        (source(foreign),),
        (source(message), source(foreign)),
    ):
        with pytest.raises(StoreError):
            apply(store, AtomChanges(add=(good, replace(atom("bad", message), sources=sources))))
    assert store.counts().atoms == 0


def test_refused_changes_leave_cursor_and_job_as_they_were(store: Store) -> None:
    store.add_turn(turn("text", ""), each_turn(), NOW)
    held = lease(store, JobKind.L1)
    read = batch(store)
    bad = replace(atom("bad", read.messages[0]), sources=())
    with pytest.raises(StoreError):
        store.apply_atoms(held, read, AtomChanges(add=(bad,)), idle_plan, NOW)
    assert batch(store) == read
    store.apply_atoms(held, read, AtomChanges(add=(atom("good", read.messages[0]),)), idle_plan, NOW)
    assert store.counts().atoms == 1


def test_atom_that_comes_again_is_confirmed_not_doubled(store: Store) -> None:
    first, second = said(store, "a"), said(store, "b")
    new = atom("fact", first)
    apply(store, AtomChanges(add=(new,)))
    assert apply(store, AtomChanges(add=(replace(new, sources=(source(second),)),))) == []
    found = store.atom("", new.id)
    assert found is not None
    assert found.sources == (source(first), source(second))
    assert store.counts().atoms == 1


def test_superseded_atom_stays_with_the_end_of_its_validity(store: Store) -> None:
    old = remember(store, "The user lives in Porto.", said="I live in Porto")
    message = said(store, "I moved to Lisbon", at=NOW + HOUR)
    new = atom("The user lives in Lisbon.", message)
    apply(store, AtomChanges(add=(new,), supersede=((old.id, new.id),)), now=NOW + 2 * HOUR)

    before, after = store.atom("", old.id), store.atom("", new.id)
    assert before is not None
    assert after is not None
    assert (before.superseded_at, before.superseded_by, before.valid_to) == (NOW + 2 * HOUR, new.id, NOW + HOUR)
    assert before.sources == old.sources
    assert after.sources == (*old.sources, source(message))
    assert after.valid_from == NOW + HOUR
    assert [hit.atom.id for hit in store.search_atoms("user lives", Filter(""), 9)] == [new.id]
    counts = store.counts()
    assert (counts.atoms, counts.superseded) == (1, 1)


def test_merge_may_keep_the_first_validity(store: Store) -> None:
    old = remember(store, "The user has a dog.")
    message = said(store, "The dog is called Rex.", at=NOW + HOUR)
    new = atom("The user has a dog called Rex.", message, valid_from=old.valid_from)
    (made,) = apply(store, AtomChanges(add=(new,), supersede=((old.id, new.id),)))
    before = store.atom("", old.id)
    assert before is not None
    assert made.valid_from == old.valid_from
    assert before.valid_to == old.valid_from


def test_several_atoms_merge_into_one_with_all_sources(store: Store) -> None:
    olds = [remember(store, f"part {number}") for number in range(3)]
    new = atom("the whole", said(store, "so all of it"))
    (made,) = apply(store, AtomChanges(add=(new,), supersede=tuple((old.id, new.id) for old in olds)))
    assert len(made.sources) == 4
    assert store.counts().superseded == 3


def test_unknown_and_foreign_ids_are_refused(store: Store) -> None:
    mine, other = remember(store, "mine"), remember(store, "of bob", scope="bob")
    new = atom("new", said(store, "new"))
    for changes in (
        AtomChanges(add=(new,), supersede=(("m_unknown", new.id),)),
        AtomChanges(add=(new,), supersede=((other.id, new.id),)),
        AtomChanges(add=(new,), supersede=((mine.id, "m_unknown"),)),
        AtomChanges(supersede=((mine.id, mine.id),)),
        AtomChanges(confirm=((other.id, mine.sources),)),
        AtomChanges(confirm=((mine.id, other.sources),)),
        AtomChanges(close=("m_unknown",)),
    ):
        with pytest.raises(StoreError):
            apply(store, changes)
    assert store.atom("", mine.id) == mine
    assert store.atom("", new.id) is None


def test_supersession_that_comes_again_changes_nothing(store: Store) -> None:
    old = remember(store, "old")
    new = atom("new", said(store, "new"))
    changes = AtomChanges(add=(new,), supersede=((old.id, new.id),))
    apply(store, changes, now=NOW + 1)
    once = store.atom("", old.id)
    apply(store, changes, now=NOW + 2)
    assert store.atom("", old.id) == once


def test_confirmed_atom_gains_sources(store: Store) -> None:
    known = remember(store, "known")
    message = said(store, "I said so again")
    apply(store, AtomChanges(confirm=((known.id, (source(message),)),)))
    found = store.atom("", known.id)
    assert found is not None
    assert found.sources == (*known.sources, source(message))


def test_closed_atom_ends_without_a_successor(store: Store) -> None:
    known = remember(store, "The user has a cat.")
    apply(store, AtomChanges(close=(known.id,)), now=NOW + HOUR)
    found = store.atom("", known.id)
    assert found is not None
    assert (found.live, found.superseded_by, found.valid_to) == (False, None, NOW + HOUR)
    assert store.search_atoms("cat", Filter(""), 5) == []


def test_l1_run_moves_cursor_scene_and_warm_up_and_plans_in_one(store: Store) -> None:
    store.add_turn(turn("text", ""), each_turn(), NOW)
    held = lease(store, JobKind.L1)
    read = batch(store)
    seen: list[SessionState] = []

    def plan(state: SessionState) -> list[Due]:
        seen.append(state)
        return [Due(JobKind.L2, NOW + 10)]

    changes = AtomChanges(add=(atom("fact", read.messages[0]),), scene_name="Move")
    store.apply_atoms(held, read, changes, plan, NOW)
    assert (seen[0].pending_turns, seen[0].l1_runs, seen[0].pending_atoms) == (0, 1, 1)
    assert store.next_due_at([JobKind.L2]) == NOW + 10
    assert store.read_l1_batch("", "s1", max_messages=9, max_chars=999, background=0) is None
    assert [each.content for each in store.read_l2_batch("", "s1", 9)] == ["fact"]


def test_batch_of_another_session_is_refused(store: Store) -> None:
    store.add_turn(turn("text", "", session="a"), each_turn(), NOW)
    store.add_turn(turn("text", "", session="b"), idle_plan, NOW)
    with pytest.raises(StoreError):
        store.apply_atoms(lease(store, JobKind.L1), batch(store, "b"), AtomChanges(), idle_plan, NOW)


def test_atoms_from_outside_wake_the_scenes_of_their_session(store: Store) -> None:
    message = said(store, "text", session="memory")
    new = atom("fact", message, session="memory")
    store.add_atoms("", AtomChanges(add=(new,)), each_turn(), NOW)
    held = lease(store, JobKind.L2)
    assert held.session_key == "memory"
    assert [each.id for each in store.read_l2_batch("", "memory", 9)] == [new.id]


def test_superseded_atoms_are_not_pending(store: Store) -> None:
    old = remember(store, "old")
    new = atom("new", said(store, "new"))
    apply(store, AtomChanges(add=(new,), supersede=((old.id, new.id),)))
    assert [each.id for each in store.read_l2_batch("", "s1", 9)] == [new.id]


def test_standing_instructions_are_live_and_oldest_first(store: Store) -> None:
    rules = [remember(store, f"always {number}", type=AtomType.INSTRUCTION, priority=-1) for number in range(3)]
    remember(store, "sometimes", type=AtomType.INSTRUCTION, priority=90)
    remember(store, "a trait", priority=-1)
    remember(store, "of bob", type=AtomType.INSTRUCTION, priority=-1, scope="bob")
    apply(store, AtomChanges(close=(rules[0].id,)))
    assert [each.id for each in store.standing_instructions("")] == [rules[1].id, rules[2].id]


def test_atoms_and_messages_by_id_come_in_order(store: Store) -> None:
    first, second = remember(store, "one"), remember(store, "two")
    assert [each.id for each in store.atoms_by_id([second.id, "m_x", first.id])] == [first.id, second.id]
    ids = [each.sources[0].message_id for each in (first, second)]
    assert [message.id for message in store.messages_by_id([ids[1], ids[0], "l0_x"])] == ids


def test_reads_by_id_keep_to_their_scope(store: Store) -> None:
    other = remember(store, "of bob", scope="bob")
    assert store.atom("", other.id) is None
    assert store.atom("bob", other.id) == other
    assert store.atom(None, other.id) == other
    message_id = other.sources[0].message_id
    assert store.message("", message_id) is None
    assert store.message(None, message_id) is not None


def test_a_fact_that_changes_again_and_again_does_not_gather_sources_without_end(store: Store) -> None:
    known = remember(store, "The user lives in street 0.", said="I live in street 0")
    for number in range(1, 60):
        message = said(store, f"I live in street {number}", at=NOW + number)
        new = atom(f"The user lives in street {number}.", message)
        (known,) = apply(store, AtomChanges(add=(new,), supersede=((known.id, new.id),)), now=NOW + number)
    assert len(known.sources) == 51
    assert known.sources[-1] == source(message)
