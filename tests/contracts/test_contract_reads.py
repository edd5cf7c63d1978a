"""Reads of every store: pages, counts, the ledger, and what the projections are made from."""

from __future__ import annotations

from contracts.turns import HOUR, NOW, add, idle_plan, lease, no_scope_plan, persona, remember, run_l2, scene, turn
from memory_tencentdb_worker.models import (
    AtomChanges,
    CallTotals,
    Counts,
    Filter,
    JobKind,
    Layer,
    ModelCall,
    Page,
    Role,
)
from memory_tencentdb_worker.store.base import Store


def test_pages_of_messages_are_newest_first_and_say_the_total(store: Store) -> None:
    for number in range(5):
        add(store, f"m{number}", "", at=NOW + number)
    rows = store.list_rows(Layer.L0, Page(limit=2, offset=1), scope="")
    assert [row.text for row in rows.rows] == ["m3", "m2"]  # type: ignore[union-attr]
    assert rows.total == 5
    rows = store.list_rows(Layer.L0, Page(ascending=True, since=NOW + 1, until=NOW + 3), scope="")
    assert [row.text for row in rows.rows] == ["m1", "m2"]  # type: ignore[union-attr]
    assert rows.total == 2


def test_messages_are_listed_by_session_role_and_scope(store: Store) -> None:
    add(store, "q", "a", session="s1")
    add(store, "other", "", session="s2")
    add(store, "of bob", "", scope="bob")
    listed = store.list_rows(Layer.L0, Page(), scope="", session_key="s1", role="assistant").rows
    assert [(row.role, row.text) for row in listed] == [(Role.ASSISTANT, "a")]  # type: ignore[union-attr]
    assert store.list_rows(Layer.L0, Page(), scope=None).total == 4
    assert store.list_rows(Layer.L0, Page(limit=-1), scope="").rows == ()


def test_atoms_are_listed_by_type_and_priority(store: Store) -> None:
    kept = remember(store, "important", priority=90)
    remember(store, "minor", priority=10)
    rows = store.list_rows(Layer.L1, Page(), scope="", priority_at_least=50, type="persona")
    assert rows.rows == (kept,)
    assert store.list_rows(Layer.L1, Page(), scope="", type="episodic").total == 0


def test_documents_are_listed(store: Store) -> None:
    fact = remember(store, "fact")
    run_l2(store, scene("a", ("x", [fact.id])), scene("b", ("y", [fact.id])))
    store.make_due(NOW, expedite=False)
    store.apply_persona(lease(store, JobKind.L3), persona(("x", [fact.id])), no_scope_plan, NOW)
    assert store.list_rows(Layer.L2, Page(limit=1), scope="").total == 2
    assert store.list_rows(Layer.L3, Page(), scope=None).rows == (store.persona(""),)
    assert store.list_rows(Layer.L3, Page(), scope="bob").total == 0


def test_counts_are_those_of_the_tables(store: Store) -> None:
    fact = remember(store, "fact")
    add(store, "q", "a", scope="bob")
    store.add_atoms("", AtomChanges(close=(fact.id,)), idle_plan, NOW)
    assert store.counts() == Counts(2, 3, 0, 1, 0, 0, 0)
    assert store.counts("bob") == Counts(1, 2, 0, 0, 0, 0, 0)
    assert store.counts("nobody") == Counts(0, 0, 0, 0, 0, 0, 0)
    assert store.scopes() == ["", "bob"]


def test_ledger_sums_calls_since_an_instant(store: Store) -> None:
    def call(at: int, outcome: str = "ok") -> ModelCall:
        return ModelCall(at, "l1-extraction", "", "m", 100, 20, 0.25, 900, outcome, "x" * 2_000)

    for at in (NOW - HOUR, NOW, NOW + 1):
        store.record_call(call(at))
    store.record_call(call(NOW + 2, "transient"))
    assert store.calls_since(NOW) == CallTotals(3, 300, 60, 0.75)
    assert store.calls_since(NOW + HOUR) == CallTotals(0, 0, 0, 0.0)


def test_change_mark_moves_with_each_layer_of_its_scope_only(store: Store) -> None:
    assert store.change_mark("") == (0, 0, 0, 0)
    fact = remember(store, "fact")
    messages, atoms, scenes, personas = store.change_mark("")
    run_l2(store, scene("a", ("x", [fact.id])))
    assert store.change_mark("") == (messages, atoms, scenes + 1, personas)
    store.add_atoms("", AtomChanges(close=(fact.id,)), idle_plan, NOW)
    assert store.change_mark("") == (messages, atoms + 1, scenes + 1, personas)
    add(store, "x", "", turn_id="t1")
    assert store.change_mark("")[0] == messages + 1
    add(store, "x", "", turn_id="t1")
    add(store, "x", "", scope="bob")
    assert store.change_mark("")[0] == messages + 1
    store.make_due(NOW, expedite=False)
    store.apply_persona(lease(store, JobKind.L3), persona(("x", [fact.id])), no_scope_plan, NOW)
    assert store.change_mark("")[3] == personas + 1


def test_rows_between_two_recording_times(store: Store) -> None:
    for number in range(3):
        store.add_turn(turn(f"m{number}", "", at=0), idle_plan, NOW + number)
    assert [each.text for each in store.messages_between("", NOW + 1, NOW + 2)] == ["m1"]
    assert store.messages_between("bob", NOW, NOW + 9) == []
    fact = remember(store, "fact")
    store.add_atoms("", AtomChanges(close=(fact.id,)), idle_plan, NOW + HOUR)
    assert [each.live for each in store.atoms_between("", NOW, NOW + 1)] == [False]
    assert store.atoms_between("", NOW + 1, NOW + HOUR) == []
    assert store.atoms_between("", NOW, NOW + 1, after_seq=store.atoms_between("", NOW, NOW + 1)[0].seq) == []
    assert store.atoms_between("", NOW, NOW + 1, limit=0) == []


def test_projection_hashes_are_kept_by_scope(store: Store) -> None:
    store.set_projection_hash("", "persona.md", "a")
    store.set_projection_hash("", "persona.md", "b")
    store.set_projection_hash("bob", "persona.md", "c")
    store.set_projection_hash("", "gone.md", "d")
    store.set_projection_hash("", "gone.md", None)
    assert store.projection_hashes("") == {"persona.md": "b"}
    assert store.projection_hashes("bob") == {"persona.md": "c"}


def test_checkpoint_copies_everything_when_nobody_reads(store: Store) -> None:
    add(store)
    assert store.checkpoint()


def test_what_is_too_much_to_read_at_once_is_read_by_number(store: Store) -> None:
    for number in range(6):
        add(store, f"turn {number}", "", at=NOW)
    add(store, "not mine", "", scope="bob")
    mark, seqs = store.message_seqs("")
    assert mark == store.change_mark("")[0]
    assert [message.text for message in store.messages_by_seq(seqs[2:4])] == ["turn 2", "turn 3"]
    assert store.messages_by_seq([seqs[5], 10**9, seqs[0]])[1].text == "turn 0"
    assert list(store.message_seqs("", 0, NOW)[1]) == []


def test_the_mark_of_an_atom_differs_once_it_was_confirmed_or_ended(store: Store) -> None:
    first, second = remember(store, "Lives in Lisbon"), remember(store, "Lives in Braga")
    remember(store, "Plays the cello")
    before = store.atom_marks("")
    assert before[0][0] == first.recorded_from
    store.add_atoms("", AtomChanges(supersede=((first.id, second.id),)), idle_plan, NOW + 1)
    after = store.atom_marks("")
    assert after[0] != before[0]
    assert after[1] != before[1], "it rests on the other's messages too"
    assert after[2] == before[2]


def test_search_answers_the_same_after_it_was_warmed(store: Store) -> None:
    add(store, "The cello is in the attic", "")
    store.warm_search()
    assert [hit.message.text for hit in store.search_messages("cello", Filter(""), 5)] == ["The cello is in the attic"]
