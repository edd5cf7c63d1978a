"""L2 and L3 of every store: revisions with sources; a person's edit always wins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contracts.turns import (
    HOUR,
    LEASE_MS,
    NOW,
    idle_plan,
    lease,
    no_scope_plan,
    persona,
    remember,
    run_l2,
    scene,
    turn,
)
from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import Due, JobKind, ScopeState
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.ids import message_id


def run_l3(store: Store, *lines: tuple[str, list[str]]) -> None:
    store.make_due(NOW, expedite=False)
    store.apply_persona(lease(store, JobKind.L3), persona(*lines), no_scope_plan, NOW)


def test_scene_is_stored_with_its_lines_and_sources(store: Store) -> None:
    fact = remember(store, "The user lives in Lisbon.")
    change = scene("Lisbon-里斯本", ("Lives in Lisbon.", [fact.id]), ("Likes it.", [fact.id]), heat=3)
    run_l2(store, change)
    (found,) = store.scenes("")
    assert found == replace(change.scene, revision=1)
    assert store.scene("", "Lisbon-里斯本") == found
    assert store.scene("bob", "Lisbon-里斯本") is None
    assert store.scene(None, "Lisbon-里斯本") == found
    assert store.read_l2_batch("", "s1", 9) == []


def test_scene_names_are_apart_in_each_scope(store: Store) -> None:
    for scope in ("", "bob"):
        fact = remember(store, "fact", scope=scope)
        run_l2(store, scene("Home", (f"of {scope}", [fact.id]), scope=scope), scope=scope)
    assert [each.sections[0].lines[0].text for each in store.scenes("bob")] == ["of bob"]
    assert store.counts("bob").scenes == 1
    assert store.counts().scenes == 2


def test_scenes_come_hottest_first_then_by_name(store: Store) -> None:
    fact = remember(store, "fact")
    lines = ("x", [fact.id])
    run_l2(store, scene("b", lines), scene("a", lines), scene("hot", lines, heat=5))
    assert [each.name for each in store.scenes("")] == ["hot", "a", "b"]


def test_merge_absorbs_scenes_and_keeps_where_they_went(store: Store) -> None:
    fact = remember(store, "fact")
    run_l2(store, scene("a", ("x", [fact.id])), scene("b", ("y", [fact.id])))
    other = remember(store, "other")
    run_l2(store, scene("a", ("x y", [fact.id, other.id]), op="merge", heat=3, absorbed=("b",)))
    assert [(each.name, each.revision, each.heat) for each in store.scenes("")] == [("a", 2, 3)]
    gone = store.scene("", "b")
    assert gone is not None
    assert (gone.status, gone.merged_into, gone.revision) == ("merged", "a", 2)


def test_archived_scene_may_come_back(store: Store) -> None:
    fact = remember(store, "fact")
    run_l2(store, scene("a", ("x", [fact.id])))
    remember(store, "second")
    run_l2(store, scene("a", ("x", [fact.id]), op="archive"))
    assert store.scenes("") == []
    remember(store, "third")
    run_l2(store, scene("a", ("z", [fact.id])))
    assert [(each.name, each.revision) for each in store.scenes("")] == [("a", 3)]


def test_bad_scene_changes_are_refused_whole(store: Store) -> None:
    fact, other = remember(store, "fact"), remember(store, "of bob", scope="bob")
    store.make_due(NOW, expedite=False, scope="")
    held = lease(store, JobKind.L2)
    good = scene("good", ("x", [fact.id]))
    for bad in (
        scene("bad", ("x", ["m_unknown"])),
        scene("bad", ("x", [other.id])),
        scene("bad", ("x", [fact.id]), absorbed=("nowhere",)),
        scene("bad", ("x", [fact.id]), absorbed=("bad",)),
    ):
        with pytest.raises(StoreError):
            store.apply_scenes(held, fact.seq, [good, bad], "", idle_plan, no_scope_plan, NOW)
    assert store.scenes("") == []
    store.apply_scenes(held, fact.seq, [good], "", idle_plan, no_scope_plan, NOW)
    assert len(store.scenes("")) == 1


def test_scope_state_follows_scenes_and_persona(store: Store) -> None:
    fact = remember(store, "fact")
    run_l2(store, scene("a", ("x", [fact.id])), scene("b", ("y", [fact.id])), request="a new job")
    state = store.scope_state("")
    assert state == ScopeState("", 1, 2, 1, 2, False, "a new job", None)
    run_l3(store, ("x", [fact.id, "a"]))
    assert store.scope_state("") == ScopeState("", 0, 2, 1, 0, True, "", None)
    assert store.changed_scenes("") == []

    other = remember(store, "other")
    run_l2(store, scene("b", ("y", [other.id]), op="update", heat=2))
    assert store.scope_state("") == ScopeState("", 1, 2, 2, 1, True, "", None)
    assert [each.name for each in store.changed_scenes("")] == ["b"]
    assert store.scope_state("nobody").scenes == 0


def test_scene_run_plans_session_and_persona(store: Store) -> None:
    fact = remember(store, "fact")
    store.make_due(NOW, expedite=False)
    held = lease(store, JobKind.L2)
    states: list[ScopeState] = []

    def scope_plan(state: ScopeState) -> list[Due]:
        states.append(state)
        return [Due(JobKind.L3, NOW + 5)]

    store.apply_scenes(
        held, fact.seq, [scene("a", ("x", [fact.id]))], "", lambda state: [Due(JobKind.L2, NOW + HOUR)], scope_plan, NOW
    )
    assert states[0].changed_scenes == 1
    assert store.next_due_at([JobKind.L3]) == NOW + 5
    assert store.next_due_at([JobKind.L2]) == NOW + HOUR
    held = lease(store, JobKind.L3, NOW + 5)
    assert (held.scope, held.session_key) == ("", "")


def test_run_that_changes_nothing_is_not_counted(store: Store) -> None:
    remember(store, "fact")
    run_l2(store)
    assert store.scope_state("").scenes_processed == 0
    assert store.read_l2_batch("", "s1", 9) == []


def test_persona_revisions_follow_each_other(store: Store) -> None:
    assert store.persona("") is None
    fact = remember(store, "fact")
    run_l2(store, scene("a", ("x", [fact.id])))
    run_l3(store, ("first", [fact.id]))
    first = store.persona("")
    assert first == replace(persona(("first", [fact.id])), revision=1)
    remember(store, "second")
    run_l2(store, scene("a", ("y", [fact.id]), op="update"))
    run_l3(store, ("second", ["a"]))
    second = store.persona("")
    assert second is not None
    assert (second.revision, second.sections[0].lines[0].sources) == (2, ("a",))
    assert store.persona("bob") is None


def test_persona_that_needs_no_change_still_counts_as_done(store: Store) -> None:
    fact = remember(store, "fact")
    run_l2(store, scene("a", ("x", [fact.id])), request="please")
    store.make_due(NOW, expedite=False)
    store.apply_persona(lease(store, JobKind.L3), None, no_scope_plan, NOW)
    assert store.persona("") is None
    state = store.scope_state("")
    assert (state.changed_scenes, state.persona_request, state.atoms_since_persona) == (0, "", 0)


def test_atoms_made_while_the_persona_is_written_count_for_the_next(store: Store) -> None:
    fact = remember(store, "fact")
    run_l2(store, scene("a", ("x", [fact.id])))
    store.make_due(NOW, expedite=False)
    held = lease(store, JobKind.L3)
    remember(store, "meanwhile")
    store.apply_persona(held, persona(("x", [fact.id])), no_scope_plan, NOW)
    assert store.scope_state("").atoms_since_persona == 1


def test_persona_with_unknown_sources_is_refused(store: Store) -> None:
    fact = remember(store, "fact")
    run_l2(store, scene("a", ("x", [fact.id])))
    store.make_due(NOW, expedite=False)
    held = lease(store, JobKind.L3)
    with pytest.raises(StoreError):
        store.apply_persona(held, persona(("x", ["no-such-scene"])), no_scope_plan, NOW)
    assert store.persona("") is None
    store.retry_job(held, NOW + 1, "unknown source", NOW)


def edit(store: Store, text: str, **documents: object) -> str:
    evidence = turn(text, "", turn_id=f"edit-{text}", session="owner-edit")
    arguments = {"scenes": (), "persona": None, **documents}
    store.edit_documents("", evidence=evidence, now=NOW + 1, **arguments)  # type: ignore[arg-type]
    return message_id("", "owner-edit", evidence.turn_id, 0)


def test_hand_edit_is_a_revision_that_rests_on_the_owners_turn(store: Store) -> None:
    fact = remember(store, "fact")
    run_l2(store, scene("a", ("x", [fact.id])))
    change = scene("a", ("x, really", [fact.id, "m_typo"]), ("and mine", []), op="edit")
    evidence = edit(store, "x, really; and mine", scenes=[change], persona=persona(("me", ["m_typo"])))

    (found,) = store.scenes("")
    assert found.revision == 2
    assert [line.sources for line in found.sections[0].lines] == [(fact.id,), (evidence,)]
    written = store.persona("")
    assert written is not None
    assert written.sections[0].lines[0].sources == (evidence,)
    message = store.message("", evidence)
    assert message is not None
    assert message.session_key == "owner-edit"
    assert store.unextracted("", 9, session_key="owner-edit") == []
    assert [each.name for each in store.changed_scenes("")] == ["a"]


def test_removed_file_archives_its_scene(store: Store) -> None:
    fact = remember(store, "fact")
    run_l2(store, scene("a", ("x", [fact.id])))
    edit(store, "removed a", scenes=[scene("a", ("x", [fact.id]), op="archive")])
    assert store.scenes("") == []


def test_hand_edit_during_a_run_is_never_overwritten(store: Store) -> None:
    fact = remember(store, "fact")
    run_l2(store, scene("a", ("x", [fact.id])), scene("b", ("y", [fact.id])))
    other = remember(store, "other")
    store.make_due(NOW, expedite=False)
    held = store.lease_job([JobKind.L2], NOW, LEASE_MS, "w")
    assert held is not None
    edit(store, "mine", scenes=[scene("a", ("mine", []), op="edit")])
    for change in (
        scene("a", ("from the model", [other.id]), op="update"),
        scene("b", ("from the model", [other.id]), op="merge", absorbed=("a",)),
    ):
        with pytest.raises(StoreError) as refused:
            store.apply_scenes(held, other.seq, [change], "", idle_plan, no_scope_plan, NOW)
        assert refused.value.code == "stale"
    store.retry_job(held, NOW, "stale", NOW)
    held = lease(store, JobKind.L2)
    store.apply_scenes(held, other.seq, [scene("a", ("both", [other.id]))], "", idle_plan, no_scope_plan, NOW)


def test_hand_edited_persona_is_never_overwritten(store: Store) -> None:
    fact = remember(store, "fact")
    run_l2(store, scene("a", ("x", [fact.id])))
    store.make_due(NOW, expedite=False)
    held = lease(store, JobKind.L3)
    edit(store, "I am who I am", persona=persona(("I am who I am", []), reason="edit"))
    with pytest.raises(StoreError) as refused:
        store.apply_persona(held, persona(("from the model", [fact.id])), no_scope_plan, NOW)
    assert refused.value.code == "stale"
    written = store.persona("")
    assert written is not None
    assert written.reason == "edit"
