"""When is what due (the manual, page 05), as arithmetic on states."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory_tencentdb_worker.config.model import Pipeline
from memory_tencentdb_worker.layers import schedule
from memory_tencentdb_worker.models import Due, JobKind, ScopeState, SessionState

NOW = 1_000_000_000
SECOND = 1_000
SETTINGS = Pipeline()
SESSION = SessionState(
    scope="",
    session_key="s",
    pending_turns=0,
    l1_runs=0,
    pending_atoms=0,
    last_active_at=NOW,
    last_l2_at=None,
    l1_due_at=None,
    l2_due_at=None,
)
SCOPE = ScopeState(
    scope="",
    atoms_since_persona=0,
    scenes=0,
    scenes_processed=5,
    changed_scenes=0,
    has_persona=True,
    persona_request="",
    l3_due_at=None,
)


def l1_at(plan: schedule.SessionPlan, state: SessionState) -> list[int | None]:
    return [due.at for due in plan(state) if due.kind is JobKind.L1]


def l2_at(plan: schedule.SessionPlan, state: SessionState) -> list[int | None]:
    return [due.at for due in plan(state) if due.kind is JobKind.L2]


@pytest.mark.parametrize(("runs", "threshold"), [(0, 1), (1, 2), (2, 4), (3, 5), (4, 5), (1000, 5)])
def test_warm_up_doubles_the_threshold_up_to_the_configured_number(runs: int, threshold: int) -> None:
    assert schedule.l1_threshold(SETTINGS, runs) == threshold
    assert schedule.l1_threshold(SETTINGS.model_copy(update={"enable_warmup": False}), runs) == 5


def test_first_turn_of_a_session_is_extracted_at_once() -> None:
    assert l1_at(schedule.after_turn(SETTINGS, NOW), replace(SESSION, pending_turns=1)) == [NOW]


def test_turns_below_the_threshold_wait_until_the_session_is_idle() -> None:
    state = replace(SESSION, pending_turns=1, l1_runs=1)
    assert l1_at(schedule.after_turn(SETTINGS, NOW), state) == [NOW + 600 * SECOND]
    later = replace(state, l1_due_at=NOW + 300 * SECOND)
    assert l1_at(schedule.after_turn(SETTINGS, NOW), later) == [NOW + 600 * SECOND], "each turn begins the wait anew"


def test_a_new_turn_does_not_put_off_what_is_due_already() -> None:
    state = replace(SESSION, pending_turns=2, l1_runs=3, l1_due_at=NOW - 1)
    assert l1_at(schedule.after_turn(SETTINGS, NOW), state) == []
    full = replace(SESSION, pending_turns=9, l1_runs=3, l1_due_at=NOW - 7)
    assert l1_at(schedule.after_turn(SETTINGS, NOW), full) == [NOW - 7]


def test_a_duplicate_turn_changes_no_time() -> None:
    assert list(schedule.after_turn(SETTINGS, NOW)(SESSION)) == []


def test_backlog_is_extracted_at_once_and_a_remainder_waits_for_idle() -> None:
    plan = schedule.after_l1(SETTINGS, NOW)
    assert l1_at(plan, replace(SESSION, pending_turns=40, l1_runs=3)) == [NOW]
    rest = replace(SESSION, pending_turns=2, l1_runs=3, last_active_at=NOW - 100 * SECOND)
    assert l1_at(plan, rest) == [NOW + 500 * SECOND]
    assert l1_at(schedule.after_l1(SETTINGS, NOW, backlog=True), rest) == [NOW]
    assert l1_at(plan, SESSION) == [None]


def test_a_session_whose_clock_runs_ahead_does_not_wait_longer_than_the_idle_time() -> None:
    state = replace(SESSION, pending_turns=1, l1_runs=3, last_active_at=NOW + 10**12)
    assert l1_at(schedule.after_l1(SETTINGS, NOW), state) == [NOW + 600 * SECOND]


def test_scenes_follow_atoms_after_a_delay_and_never_more_often_than_the_interval() -> None:
    plan = schedule.after_l1(SETTINGS, NOW)
    assert l2_at(plan, replace(SESSION, pending_atoms=1)) == [NOW + 10 * SECOND]
    recent = replace(SESSION, pending_atoms=1, last_l2_at=NOW - 100 * SECOND)
    assert l2_at(plan, recent) == [NOW + 800 * SECOND]
    assert l2_at(plan, SESSION) == []


def test_scene_time_only_moves_earlier() -> None:
    state = replace(SESSION, pending_atoms=3, l2_due_at=NOW + 3 * SECOND)
    assert l2_at(schedule.after_l1(SETTINGS, NOW), state) == [NOW + 3 * SECOND]


def test_scene_time_is_never_later_than_the_longest_interval() -> None:
    odd = SETTINGS.model_copy(update={"l2_min_interval_seconds": 90_000.0})
    state = replace(SESSION, pending_atoms=3, last_l2_at=NOW)
    assert l2_at(schedule.after_l1(odd, NOW), state) == [NOW + 3600 * SECOND]


def test_atoms_left_by_a_scene_run_wait_for_the_interval() -> None:
    plan = schedule.after_l2(SETTINGS, NOW)
    assert list(plan(replace(SESSION, pending_atoms=5, last_l2_at=NOW))) == [Due(JobKind.L2, NOW + 900 * SECOND)]
    assert list(plan(SESSION)) == [Due(JobKind.L2, None)]


def test_a_cold_session_with_atoms_is_still_worked_in() -> None:
    cold = replace(SESSION, pending_atoms=1, last_active_at=NOW - 10**9)
    assert l2_at(schedule.after_atoms(SETTINGS, NOW), cold) == [NOW + 10 * SECOND]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"changed_scenes": 1, "persona_request": "asked"}, "asked"),
        ({"changed_scenes": 1, "scenes": 1, "has_persona": False}, "first persona"),
        ({"changed_scenes": 1, "scenes_processed": 1, "atoms_since_persona": 2}, "first scenes"),
        ({"changed_scenes": 1, "atoms_since_persona": 50}, "50 new memories"),
        ({"changed_scenes": 1, "atoms_since_persona": 49}, None),
        ({"changed_scenes": 0, "persona_request": "asked"}, None),
    ],
)
def test_persona_is_written_for_a_reason_and_only_when_scenes_changed(
    change: dict[str, object], reason: str | None
) -> None:
    state = replace(SCOPE, **change)  # type: ignore[arg-type]
    assert schedule.persona_trigger(state, 50) == reason
    expected = [] if reason is None else [Due(JobKind.L3, NOW)]
    assert list(schedule.after_scenes(50, NOW)(state)) == expected
    assert list(schedule.after_persona(50, NOW)(state)) == [Due(JobKind.L3, NOW if reason else None)]
