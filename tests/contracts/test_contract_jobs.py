"""The schedule of every store: durable, leased, and without a lost wake-up."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.conftest import Open
from contracts.turns import (
    HOUR,
    LEASE_MS,
    NOW,
    add,
    atom,
    batch,
    due,
    each_turn,
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
from memory_tencentdb_worker.models import AtomChanges, Due, JobKind, Lease, SessionState
from memory_tencentdb_worker.store.base import Store

ALL = tuple(JobKind)
NOTHING = AtomChanges()


def finish_l1(store: Store, held: Lease, plan: object = idle_plan) -> None:
    store.apply_atoms(held, batch(store), NOTHING, plan, NOW)  # type: ignore[arg-type]


def test_plan_sets_the_due_time_and_clears_it(store: Store) -> None:
    store.add_turn(turn(), lambda state: [Due(JobKind.L1, NOW + 600)], NOW)
    assert due(store, JobKind.L1) == NOW + 600
    store.add_turn(turn(), lambda state: [Due(JobKind.L1, NOW + 900)], NOW)
    assert due(store, JobKind.L1) == NOW + 900
    store.add_turn(turn(), lambda state: [], NOW)
    assert due(store, JobKind.L1) == NOW + 900
    store.add_turn(turn(), lambda state: [Due(JobKind.L1, None)], NOW)
    assert due(store, JobKind.L1) is None


def test_only_due_jobs_of_the_wanted_kinds_are_leased(store: Store) -> None:
    store.add_turn(turn(), lambda state: [Due(JobKind.L1, NOW + 10)], NOW)
    assert store.lease_job(ALL, NOW, LEASE_MS, "w") is None
    assert store.lease_job([JobKind.L2], NOW + 10, LEASE_MS, "w") is None
    held = store.lease_job(ALL, NOW + 10, LEASE_MS, "w")
    assert held is not None
    assert (held.kind, held.scope, held.session_key, held.attempts) == (JobKind.L1, "", "s1", 0)
    assert held.leased_until == NOW + 10 + LEASE_MS


def test_the_longest_due_job_comes_first_and_is_leased_once(store: Store) -> None:
    store.add_turn(turn(session="late"), lambda state: [Due(JobKind.L1, NOW - 1)], NOW)
    store.add_turn(turn(session="early"), lambda state: [Due(JobKind.L1, NOW - 2)], NOW)
    assert lease(store, JobKind.L1).session_key == "early"
    assert lease(store, JobKind.L1).session_key == "late"
    assert store.lease_job(ALL, NOW, LEASE_MS, "w") is None


def test_turn_that_arrives_during_a_run_is_not_lost(store: Store) -> None:
    store.add_turn(turn("first", ""), each_turn(), NOW)
    held = lease(store, JobKind.L1)
    read = batch(store)
    store.add_turn(turn("second", ""), each_turn(), NOW + 1)
    store.apply_atoms(held, read, NOTHING, each_turn(NOW + 2), NOW + 2)

    assert due(store, JobKind.L1) == NOW + 2
    lease(store, JobKind.L1, NOW + 2)
    assert [message.text for message in batch(store).messages] == ["second"]


def test_arrival_during_a_run_survives_a_plan_that_says_nothing(store: Store) -> None:
    store.add_turn(turn("first", ""), each_turn(), NOW)
    held = lease(store, JobKind.L1)
    read = batch(store)
    store.add_turn(turn("second", ""), each_turn(NOW + 1), NOW + 1)
    store.apply_atoms(held, read, NOTHING, idle_plan, NOW + 2)
    assert due(store, JobKind.L1) == NOW + 1


def test_arrival_during_a_run_survives_finish_job(store: Store) -> None:
    store.add_turn(turn("first", ""), each_turn(), NOW)
    held = lease(store, JobKind.L1)
    store.add_turn(turn("second", ""), each_turn(NOW + 1), NOW + 1)
    store.finish_job(held, [Due(JobKind.L1, NOW + HOUR)], NOW + 2)
    assert due(store, JobKind.L1) == NOW + 1


def test_session_end_during_a_run_is_not_lost(store: Store) -> None:
    store.add_turn(turn("first", ""), each_turn(), NOW)
    held = lease(store, JobKind.L1)
    read = batch(store)
    store.add_turn(turn("second", ""), idle_plan, NOW + 1)
    store.make_due(NOW + 2, scope="", session_key="s1", expedite=False)
    store.apply_atoms(held, read, NOTHING, lambda state: [Due(JobKind.L1, NOW + HOUR)], NOW + 3)
    assert due(store, JobKind.L1) == NOW + 2


def test_plan_after_a_run_may_put_off_what_the_plan_before_set(store: Store) -> None:
    store.add_turn(turn("first", ""), each_turn(), NOW)
    held = lease(store, JobKind.L1)
    read = batch(store)
    store.add_turn(turn("second", ""), each_turn(NOW + 1), NOW + 1)
    store.apply_atoms(held, read, NOTHING, lambda state: [Due(JobKind.L1, NOW + HOUR)], NOW + 2)
    assert due(store, JobKind.L1) == NOW + HOUR


def test_retry_counts_attempts_and_takes_the_earlier_time(store: Store) -> None:
    store.add_turn(turn(), each_turn(), NOW)
    store.retry_job(lease(store, JobKind.L1), NOW + HOUR, "endpoint is away", NOW)
    assert due(store, JobKind.L1) == NOW + HOUR
    held = lease(store, JobKind.L1, NOW + HOUR)
    assert held.attempts == 1

    store.add_turn(turn(), each_turn(NOW + HOUR + 5), NOW + HOUR + 1)
    store.retry_job(held, NOW + 2 * HOUR, "still away", NOW + HOUR + 2)
    assert due(store, JobKind.L1) == NOW + HOUR + 5
    held = lease(store, JobKind.L1, NOW + HOUR + 5)
    assert held.attempts == 2
    finish_l1(store, held, each_turn(NOW + HOUR + 9))
    store.add_turn(turn(), each_turn(), NOW + HOUR)
    assert lease(store, JobKind.L1, NOW + HOUR).attempts == 0


def test_lease_that_runs_out_is_due_again_and_the_old_holder_is_refused(store: Store) -> None:
    store.add_turn(turn(), each_turn(), NOW)
    lost = lease(store, JobKind.L1)
    assert store.lease_job(ALL, NOW + LEASE_MS - 1, LEASE_MS, "w2") is None
    taken = lease(store, JobKind.L1, NOW + LEASE_MS, owner="w2")

    read = batch(store)
    with pytest.raises(StoreError) as refused:
        store.apply_atoms(lost, read, NOTHING, idle_plan, NOW)
    assert refused.value.code == "lease_lost"
    with pytest.raises(StoreError):
        store.finish_job(lost, (), NOW)
    with pytest.raises(StoreError):
        store.retry_job(lost, NOW, "late", NOW)
    assert not store.heartbeat(lost, NOW + HOUR)
    finish_l1(store, taken)
    with pytest.raises(StoreError):
        store.finish_job(taken, (), NOW)


def test_same_owner_cannot_use_its_older_lease(store: Store) -> None:
    store.add_turn(turn(), each_turn(), NOW)
    lost = lease(store, JobKind.L1)
    lease(store, JobKind.L1, NOW + LEASE_MS)
    assert not store.heartbeat(lost, NOW + HOUR)


def test_heartbeat_extends_the_lease(store: Store) -> None:
    store.add_turn(turn(), each_turn(), NOW)
    held = lease(store, JobKind.L1)
    assert store.heartbeat(held, NOW + HOUR)
    assert store.lease_job(ALL, NOW + LEASE_MS, LEASE_MS, "w2") is None
    assert store.next_due_at(ALL) == NOW + HOUR


def test_released_leases_are_due_at_once_with_their_attempts(store: Store) -> None:
    store.add_turn(turn(session="a"), each_turn(), NOW)
    store.add_turn(turn(session="b"), each_turn(), NOW)
    lease(store, JobKind.L1, owner="w1")
    lease(store, JobKind.L1, owner="w2")
    assert store.release_leases("w1", NOW + 5) == 1
    assert due(store, JobKind.L1) == NOW + 5
    assert lease(store, JobKind.L1, NOW + 5).attempts == 0


def test_leases_of_a_former_worker_are_recovered(open_backend: Open, tmp_path: Path) -> None:
    store = open_backend(tmp_path / "data")
    store.add_turn(turn(), each_turn(), NOW)
    lease(store, JobKind.L1, owner="before")
    store.close()
    again = open_backend(tmp_path / "data")
    assert again.recover_leases(NOW + 1) == 1
    assert lease(again, JobKind.L1, NOW + 1).kind is JobKind.L1


def test_scenes_and_persona_of_one_scope_never_run_side_by_side(store: Store) -> None:
    for session in ("a", "b"):
        remember(store, f"fact of {session}", session=session)
        remember(store, f"fact of {session}", session=session, scope="other")
    store.make_due(NOW, expedite=False)
    first = store.lease_job([JobKind.L2, JobKind.L3], NOW, LEASE_MS, "w1")
    second = store.lease_job([JobKind.L2, JobKind.L3], NOW, LEASE_MS, "w2")
    assert first is not None
    assert second is not None
    assert {first.scope, second.scope} == {"", "other"}
    assert store.lease_job([JobKind.L2, JobKind.L3], NOW, LEASE_MS, "w3") is None
    assert store.next_due_at([JobKind.L2]) == NOW + LEASE_MS
    store.finish_job(first, (), NOW)
    third = store.lease_job([JobKind.L2, JobKind.L3], NOW, LEASE_MS, "w3")
    assert third is not None
    assert third.scope == first.scope


def test_job_counts(store: Store) -> None:
    store.add_turn(turn(session="due"), lambda state: [Due(JobKind.L1, NOW - 7)], NOW)
    store.add_turn(turn(session="waiting"), lambda state: [Due(JobKind.L1, NOW + HOUR)], NOW)
    for session in ("running", "retrying"):
        store.add_turn(turn(session=session), lambda state: [Due(JobKind.L1, NOW - 9)], NOW)
    lease(store, JobKind.L1)
    store.retry_job(lease(store, JobKind.L1), NOW + 5, "away", NOW)
    counts = store.job_counts(NOW)
    assert (counts.due, counts.running, counts.retrying, counts.waiting, counts.parked) == (1, 1, 1, 1, 0)
    assert counts.oldest_due_at == NOW - 7


def test_jobs_done_counts_finished_runs(store: Store) -> None:
    store.add_turn(turn(), each_turn(), NOW)
    before = store.jobs_done()
    finish_l1(store, lease(store, JobKind.L1))
    assert store.jobs_done() == before + 1


# ------------------------------------------------------------------------------------------------ flush


def test_items_that_were_not_accepted_are_counted(store: Store) -> None:
    assert store.unsupported() == 0
    store.count_unsupported(2)
    store.count_unsupported(3)
    assert store.unsupported() == 5


def test_last_extraction_is_the_last_batch_that_was_read(store: Store) -> None:
    add(store)
    store.make_due(NOW, expedite=False)
    finish_l1(store, lease(store, JobKind.L1))
    assert store.last_extraction_at() is None  # nothing worth reading in it
    add(store)
    store.make_due(NOW, expedite=False)
    held = lease(store, JobKind.L1)
    store.apply_atoms(held, batch(store), AtomChanges(extractor="rules"), idle_plan, NOW + 5)
    assert store.last_extraction_at() == NOW + 5


def test_make_due_wakes_only_what_has_work(store: Store) -> None:
    assert store.make_due(NOW, expedite=True) == 0
    add(store, session="a")
    add(store, session="b", scope="bob")
    assert store.make_due(NOW, scope="", session_key="a", expedite=False) == 1
    assert store.make_due(NOW, expedite=True) == 2
    assert store.make_due(NOW, expedite=True) == 2


def test_flush_is_not_put_off_by_a_late_turn(store: Store) -> None:
    add(store)
    store.make_due(NOW, expedite=True)
    store.add_turn(turn(), lambda state: [Due(JobKind.L1, NOW + HOUR)], NOW + 1)
    assert due(store, JobKind.L1) == NOW


def test_flush_goes_through_all_layers_at_once(store: Store) -> None:
    ids = add(store, "I live in Porto.", "Noted.")
    message = store.message("", ids[0])
    assert message is not None
    assert store.make_due(NOW, expedite=True) == 1
    held = lease(store, JobKind.L1)
    assert held.expedite
    late = lambda state: [Due(JobKind.L2, NOW + HOUR)]  # noqa: E731
    new = atom("The user lives in Porto.", message)
    store.apply_atoms(held, batch(store), AtomChanges(add=(new,)), late, NOW + 1)

    held = lease(store, JobKind.L2, NOW + 1)
    assert held.expedite
    assert not store.idle()
    change = scene("Porto", ("Lives in Porto.", [new.id]))
    store.apply_scenes(held, store.read_l2_batch("", "s1", 9)[-1].seq, [change], "", idle_plan, no_scope_plan, NOW + 2)

    held = lease(store, JobKind.L3, NOW + 2)
    assert held.expedite
    assert not store.idle()
    store.apply_persona(held, persona(("Lives in Porto.", [new.id])), no_scope_plan, NOW + 3)
    assert store.idle()
    assert store.next_due_at(ALL) is None


def test_flush_drains_a_backlog_before_it_goes_on(store: Store) -> None:
    for number in range(3):
        add(store, f"question {number}", "")
    store.make_due(NOW, expedite=True)
    for run in range(3):
        held = lease(store, JobKind.L1, NOW + run)
        assert held.expedite
        later = lambda state: [Due(JobKind.L1, NOW + HOUR if state.pending_turns else None)]  # noqa: E731
        store.apply_atoms(held, batch(store, max_messages=1), NOTHING, later, NOW + run)
    assert store.idle()
    assert due(store, JobKind.L1) is None


def test_flush_during_a_run_expedites_what_follows(store: Store) -> None:
    store.add_turn(turn("first", ""), each_turn(), NOW)
    held = lease(store, JobKind.L1)
    assert not held.expedite
    read = batch(store)
    add(store, "second", "")
    store.make_due(NOW + 1, expedite=True)
    store.apply_atoms(held, read, NOTHING, lambda state: [Due(JobKind.L1, NOW + HOUR)], NOW + 2)
    held = lease(store, JobKind.L1, NOW + 2)
    assert held.expedite


def test_expedite_survives_a_retry_and_ends_with_the_flush(store: Store) -> None:
    add(store)
    store.make_due(NOW, expedite=True)
    store.retry_job(lease(store, JobKind.L1), NOW + 5, "away", NOW)
    assert not store.idle()
    held = lease(store, JobKind.L1, NOW + 5)
    assert held.expedite
    finish_l1(store, held)
    store.add_turn(turn(), each_turn(), NOW + 6)
    assert not lease(store, JobKind.L1, NOW + 6).expedite


def test_persona_waits_for_the_flush_of_every_session_of_its_scope(store: Store) -> None:
    facts = {session: remember(store, f"fact of {session}", session=session) for session in ("a", "b")}
    for session in facts:
        store.make_due(NOW, scope="", session_key=session, expedite=False)
        finish = lease(store, JobKind.L1)
        store.apply_atoms(finish, batch(store, session), NOTHING, idle_plan, NOW)
    store.make_due(NOW, expedite=True)
    held = lease(store, JobKind.L2)
    change = scene("One", ("x", [facts[held.session_key].id]))
    store.apply_scenes(held, facts[held.session_key].seq, [change], "", idle_plan, no_scope_plan, NOW)
    assert due(store, JobKind.L3) is None
    held = lease(store, JobKind.L2)
    store.apply_scenes(held, facts[held.session_key].seq, [], "", idle_plan, no_scope_plan, NOW)
    assert due(store, JobKind.L3) == NOW


def test_changed_scenes_are_flushed_to_the_persona(store: Store) -> None:
    fact = remember(store, "The user has a dog.")
    run_l2(store, scene("Pets", ("Has a dog.", [fact.id])))
    finish_l1(store, lease(store, JobKind.L1))
    assert not store.idle()
    assert store.make_due(NOW, expedite=True) == 1
    store.apply_persona(lease(store, JobKind.L3), None, no_scope_plan, NOW)
    assert store.idle()


def test_store_is_idle_only_without_work(store: Store) -> None:
    assert store.idle()
    add(store)
    assert not store.idle()
    store.make_due(NOW, expedite=False)
    held = lease(store, JobKind.L1)
    assert not store.idle()
    finish_l1(store, held)
    assert store.idle()


# ------------------------------------------------------------------------------------------------ parked


def park_first(store: Store, reason: str = "refused") -> None:
    store.make_due(NOW, expedite=False)
    held = lease(store, JobKind.L1)
    store.park_l1(held, batch(store), reason, "raw answer", idle_plan, NOW)


def test_parked_batch_is_kept_visible_and_out_of_the_way(store: Store) -> None:
    add(store, "indigestible", "")
    park_first(store)
    (parked,) = store.list_parked()
    assert (parked.kind, parked.session_key, parked.reason, parked.detail) == (
        JobKind.L1, "s1", "refused", "raw answer",
    )  # fmt: skip
    assert store.job_counts(NOW).parked == 1
    assert store.idle()
    assert store.make_due(NOW, expedite=True) == 0
    assert [message.text for message in store.unextracted("", 5)] == ["indigestible"]
    seen: list[SessionState] = []
    store.add_turn(turn("next", ""), lambda state: seen.append(state) or [], NOW)  # type: ignore[func-returns-value]
    assert seen[0].pending_turns == 1
    assert seen[0].l1_runs == 0
    assert [message.text for message in batch(store).messages] == ["next"]


def test_parked_batch_runs_again_when_asked_and_the_cursor_stays(store: Store) -> None:
    ids = add(store, "indigestible", "")
    park_first(store)
    add(store, "read since", "")
    store.make_due(NOW, expedite=False)
    finish_l1(store, lease(store, JobKind.L1))
    add(store, "unread", "")

    assert store.make_due(NOW, expedite=True, parked=True) == 1
    assert store.job_counts(NOW).parked == 0
    held = lease(store, JobKind.L1)
    again = batch(store)
    assert again.parked_id is not None
    assert [message.text for message in again.messages] == ["indigestible"]
    message = store.message("", ids[0])
    assert message is not None
    store.apply_atoms(held, again, AtomChanges(add=(atom("fact", message),)), idle_plan, NOW)
    assert store.list_parked() == []
    assert store.counts().atoms == 1
    assert [each.text for each in batch(store).messages] == ["unread"]


def test_batch_that_fails_again_is_parked_once(store: Store) -> None:
    add(store, "indigestible", "")
    park_first(store)
    store.make_due(NOW, expedite=True, parked=True)
    assert not store.idle()
    store.park_l1(lease(store, JobKind.L1), batch(store), "again", "", idle_plan, NOW + 1)
    assert [parked.reason for parked in store.list_parked()] == ["again"]
    assert store.idle()


def test_every_parked_batch_of_a_session_gets_its_turn(store: Store) -> None:
    for text in ("first", "second"):
        add(store, text, "")
        park_first(store)
    store.make_due(NOW, expedite=False, parked=True)
    for text in ("first", "second"):
        held = lease(store, JobKind.L1)
        again = batch(store)
        assert [message.text for message in again.messages] == [text]
        store.apply_atoms(held, again, NOTHING, each_turn(), NOW)
    assert due(store, JobKind.L1) is None
    assert store.idle()


def test_parked_scene_job_waits_for_new_input_or_a_person(store: Store) -> None:
    remember(store, "fact")
    store.make_due(NOW, expedite=False)
    finish_l1(store, lease(store, JobKind.L1))
    store.park_job(lease(store, JobKind.L2), "too long", "raw", NOW)
    assert [parked.kind for parked in store.list_parked()] == [JobKind.L2]
    assert store.job_counts(NOW).parked == 1
    assert store.idle()
    store.add_turn(turn(), lambda state: [Due(JobKind.L2, NOW)], NOW)
    assert due(store, JobKind.L2) is None

    ids = add(store, "more", "")
    message = store.message("", ids[0])
    assert message is not None
    store.add_atoms("", AtomChanges(add=(atom("new fact", message),)), each_turn(), NOW)
    held = lease(store, JobKind.L2)
    assert [each.content for each in store.read_l2_batch("", "s1", 9)] == ["fact", "new fact"]
    assert store.job_counts(NOW).parked == 0
    store.park_job(held, "too long still", "raw", NOW)
    assert [parked.reason for parked in store.list_parked()] == ["too long still"]
    assert store.make_due(NOW, expedite=False) == 1  # the unread turns only
    store.make_due(NOW, expedite=False, parked=True)
    held = lease(store, JobKind.L2)
    store.apply_scenes(held, store.read_l2_batch("", "s1", 9)[-1].seq, [], "", idle_plan, no_scope_plan, NOW)
    assert store.list_parked() == []


def test_parked_persona_waits_for_a_changed_scene(store: Store) -> None:
    fact = remember(store, "fact")
    finish = idle_plan
    store.make_due(NOW, expedite=False)
    finish_l1(store, lease(store, JobKind.L1), finish)
    run_l2(store, scene("Home", ("fact", [fact.id])))
    store.make_due(NOW, expedite=True)
    store.park_job(lease(store, JobKind.L3), "empty", "", NOW)
    assert store.idle()
    assert store.scope_state("").changed_scenes == 0
    assert len(store.changed_scenes("")) == 1

    other = remember(store, "another")
    run_l2(store, scene("Work", ("another", [other.id])))
    assert store.scope_state("").changed_scenes == 1
    assert len(store.changed_scenes("")) == 2
