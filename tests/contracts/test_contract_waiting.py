"""What a store offers to a pipeline that has to wait: an order for the backlog, times that are mended, reasons."""

from __future__ import annotations

from collections.abc import Sequence

from contracts.turns import HOUR, LEASE_MS, NOW, each_turn, idle_plan, turn
from memory_tencentdb_worker.models import Due, JobKind, SessionState
from memory_tencentdb_worker.store.base import Store

MODEL = (JobKind.L1, JobKind.L2, JobKind.L3)


def plan(kind: JobKind, at: int) -> object:
    def dues(state: SessionState) -> Sequence[Due]:
        return [Due(kind, at)]

    return dues


def arm(store: Store, session: str, kind: JobKind, at: int) -> None:
    store.add_turn(turn(session=session), plan(kind, at), NOW)  # type: ignore[arg-type]


def test_the_first_wanted_kind_comes_first_and_in_it_the_one_due_longest(store: Store) -> None:
    arm(store, "scenes", JobKind.L2, NOW - 9)
    arm(store, "later", JobKind.L1, NOW - 1)
    arm(store, "sooner", JobKind.L1, NOW - 2)
    taken = [store.lease_job(MODEL, NOW, LEASE_MS, "w") for _ in range(3)]
    assert [(lease.kind, lease.session_key) for lease in taken if lease] == [
        (JobKind.L1, "sooner"),
        (JobKind.L1, "later"),
        (JobKind.L2, "scenes"),
    ]


def test_a_job_that_failed_goes_behind_the_others_that_are_due_since_the_same_time(store: Store) -> None:
    for session in ("a", "b"):
        arm(store, session, JobKind.L1, NOW)
    first = store.lease_job(MODEL, NOW, LEASE_MS, "w")
    assert first is not None
    store.retry_job(first, NOW, "no money", NOW)
    second = store.lease_job(MODEL, NOW, LEASE_MS, "w")
    assert second is not None
    assert second.session_key != first.session_key


def test_only_what_a_flush_asked_for_is_leased_when_nothing_else_may_run(store: Store) -> None:
    store.add_turn(turn(session="a"), each_turn(), NOW)  # type: ignore[arg-type]
    assert store.lease_job(MODEL, NOW, LEASE_MS, "w", expedited_only=True) is None
    assert store.next_due_at(MODEL, expedited_only=True) is None
    assert store.next_due_at(MODEL) == NOW
    store.make_due(NOW, expedite=True)
    assert store.next_due_at(MODEL, expedited_only=True) == NOW
    assert store.lease_job(MODEL, NOW, LEASE_MS, "w", expedited_only=True) is not None


def test_due_times_beyond_every_schedule_are_pulled_forward(store: Store) -> None:
    arm(store, "far", JobKind.L1, NOW + 48 * HOUR)
    arm(store, "near", JobKind.L1, NOW + HOUR)
    assert store.pull_forward(MODEL, NOW, HOUR) == 1
    lease = store.lease_job(MODEL, NOW, LEASE_MS, "w")
    assert lease is not None
    assert lease.session_key == "far"
    assert store.next_due_at([JobKind.L1]) == NOW + HOUR or store.next_due_at([JobKind.L1]) == lease.leased_until
    assert store.pull_forward(MODEL, NOW, HOUR) == 0


def test_failing_jobs_are_named_with_attempts_and_error_until_they_succeed(store: Store) -> None:
    arm(store, "a", JobKind.L1, NOW)
    assert store.failing_jobs() == []
    for attempt in (1, 2):
        lease = store.lease_job(MODEL, NOW, LEASE_MS, "w")
        assert lease is not None
        store.retry_job(lease, NOW, f"error {attempt}", NOW)
    (failing,) = store.failing_jobs()
    assert (failing.kind, failing.session_key, failing.attempts, failing.error, failing.due_at) == (
        JobKind.L1,
        "a",
        2,
        "error 2",
        NOW,
    )
    lease = store.lease_job(MODEL, NOW, LEASE_MS, "w")
    assert lease is not None
    store.finish_job(lease, [], NOW)
    assert store.failing_jobs() == []


def test_whose_model_is_in_use_is_remembered(store: Store) -> None:
    assert store.host_model_used() is False
    store.set_host_model_used(True)
    assert store.host_model_used() is True
    store.set_host_model_used(False)
    assert store.host_model_used() is False
    assert store.add_turn(turn(), idle_plan, NOW).recorded
