"""When is what due: pure functions from the state of a session or scope to due times (the manual, page 05).

The store calls a plan inside the transaction that changed the state, so that no turn and no wake-up can fall between
the change and its schedule. Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory_tencentdb_worker.config.model import Pipeline
from memory_tencentdb_worker.models import Due, JobKind, ScopeState, SessionState
from memory_tencentdb_worker.store.base import ScopePlan, SessionPlan


def after_turn(settings: Pipeline, now: int) -> SessionPlan:
    """A turn was stored: extract now when enough turns wait, else when the session has been idle long enough."""

    def plan(state: SessionState) -> Sequence[Due]:
        if state.pending_turns == 0:
            return []
        if state.pending_turns >= l1_threshold(settings, state.l1_runs):
            return [Due(JobKind.L1, _earlier(state.l1_due_at, now))]
        if state.l1_due_at is not None and state.l1_due_at <= now:
            return []  # made due by a session's end or a flush: a new turn does not put it off
        return [Due(JobKind.L1, now + _ms(settings.l1_idle_timeout_seconds))]

    return plan


def after_l1(settings: Pipeline, now: int, *, backlog: bool = False) -> SessionPlan:
    """An extraction ended. `backlog`: the run left turns behind that were due already; they go on at once."""

    def plan(state: SessionState) -> Sequence[Due]:
        return [Due(JobKind.L1, _l1_again(settings, state, now, backlog)), *_l2_due(settings, state, now)]

    return plan


def after_atoms(settings: Pipeline, now: int) -> SessionPlan:
    """Atoms came from outside an extraction: only scenes follow."""
    return lambda state: _l2_due(settings, state, now)


def bookkeeping(now: int) -> SessionPlan:
    """A turn that only serves as provenance: L1 passes over it at once, without a model call."""
    return lambda state: [Due(JobKind.L1, _earlier(state.l1_due_at, now))] if state.pending_turns else []


def after_l2(settings: Pipeline, now: int) -> SessionPlan:
    """A scene run ended: what is left waits for the interval between two runs.

    Sessions outside the active window need no rule of their own: there is no polling, a session is due exactly when
    it has atoms that no scene run has read.
    """

    def plan(state: SessionState) -> Sequence[Due]:
        if state.pending_atoms == 0:
            return [Due(JobKind.L2, None)]
        return [Due(JobKind.L2, _l2_at(settings, state.last_l2_at, now))]

    return plan


def after_scenes(trigger_every_n: int, now: int) -> ScopePlan:
    """A scene run ended, seen from the scope: is a persona due?"""

    def plan(state: ScopeState) -> Sequence[Due]:
        if persona_trigger(state, trigger_every_n) is None:
            return []
        return [Due(JobKind.L3, _earlier(state.l3_due_at, now))]

    return plan


def after_persona(trigger_every_n: int, now: int) -> ScopePlan:
    """A persona run ended; scenes that changed while it ran may call for another one."""

    def plan(state: ScopeState) -> Sequence[Due]:
        return [Due(JobKind.L3, now if persona_trigger(state, trigger_every_n) else None)]

    return plan


def l1_threshold(settings: Pipeline, l1_runs: int) -> int:
    """How many waiting turns start an extraction: 1, 2, 4, 8 ... up to the configured number while warming up."""
    if not settings.enable_warmup:
        return settings.every_n_conversations
    return min(settings.every_n_conversations, 1 << min(l1_runs, 30))


def longest_delay_ms(settings: Pipeline) -> int:
    """No plan puts a job further ahead than this."""
    return _ms(max(settings.l1_idle_timeout_seconds, settings.l2_max_interval_seconds))


def persona_trigger(state: ScopeState, every_n: int) -> str | None:
    """Why a persona should be written now, in the manual's order; None when there is no reason or nothing new."""
    if state.changed_scenes == 0:
        return None
    if state.persona_request:
        return state.persona_request
    if not state.has_persona and state.scenes > 0:
        return "first persona"
    if state.scenes_processed == 1 and state.atoms_since_persona > 0:
        return "first scenes"
    if state.atoms_since_persona >= every_n:
        return f"{state.atoms_since_persona} new memories"
    return None


def _l1_again(settings: Pipeline, state: SessionState, now: int, backlog: bool) -> int | None:
    if state.pending_turns == 0:
        return None
    if backlog or state.pending_turns >= l1_threshold(settings, state.l1_runs):
        return now
    idle_since = min(state.last_active_at, now)  # a session's clock may run ahead of ours
    return max(now, idle_since + _ms(settings.l1_idle_timeout_seconds))


def _l2_due(settings: Pipeline, state: SessionState, now: int) -> list[Due]:
    """The time only ever moves earlier."""
    if state.pending_atoms == 0:
        return []
    return [Due(JobKind.L2, _earlier(state.l2_due_at, _l2_at(settings, state.last_l2_at, now)))]


def _l2_at(settings: Pipeline, last_l2_at: int | None, now: int) -> int:
    at = now + _ms(settings.l2_delay_after_l1_seconds)
    if last_l2_at is not None:
        at = max(at, last_l2_at + _ms(settings.l2_min_interval_seconds))
    return max(now, min(at, now + _ms(settings.l2_max_interval_seconds)))


def _earlier(known: int | None, at: int) -> int:
    return at if known is None else min(known, at)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
