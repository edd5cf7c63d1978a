"""What is left to do: making it due, following a flush through the layers, and knowing when all is done."""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from memory_tencentdb_worker.models import Due, JobKind, Lease
from memory_tencentdb_worker.store import jobs, parking, rule_reads
from memory_tencentdb_worker.store.base import ScopePlan, SessionPlan
from memory_tencentdb_worker.store.connection import first_value, select
from memory_tencentdb_worker.store.sessions import pending_atoms, pending_scenes, scope_state, session_state

JobKey = tuple[JobKind, str, str]


def close_job(
    connection: apsw.Connection,
    lease: Lease,
    now: int,
    *,
    dues: Iterable[Due] = (),
    session_plan: SessionPlan | None = None,
    scope_plan: ScopePlan | None = None,
    park: tuple[str, str] | None = None,
    reread: bool = False,
) -> None:
    """Ends a lease after its work is written: plans what follows, and hands a flush on to the next layer.

    `park` (reason, detail) sets an L2 or L3 job aside instead of calling it done. `reread`: what only rules have read
    counts as unread.
    """
    wished_at, expedite = jobs.end_lease(connection, lease)
    if park:
        parking.park_input(connection, lease, *park, now)
    else:
        jobs.count_done(connection)
        if lease.kind in (JobKind.L2, JobKind.L3):
            parking.resolve(connection, lease.kind, lease.scope, lease.session_key, now)
    for due in dues:
        jobs.plan_due(connection, _not_later(connection, due, lease), lease.scope, lease.session_key)
    run_plan(connection, lease.scope, lease.session_key, session_plan, scope_plan)
    if not has_work(connection, lease.kind, lease.scope, lease.session_key, reread=reread):
        if park or lease.kind is JobKind.L1:  # what was asked for meanwhile is done with this run
            connection.execute("update jobs set due_at = null where id = ?", (lease.job_id,))
    elif park:  # new input came while it failed on the old
        jobs.unpark(connection, lease.kind, lease.scope, lease.session_key)
    elif wished_at is not None:
        jobs.request_job(connection, lease.kind, lease.scope, lease.session_key, wished_at, expedite=False)
    if lease.kind is JobKind.L1 and parking.reopened_batch(connection, lease.scope, lease.session_key):
        jobs.request_job(connection, JobKind.L1, lease.scope, lease.session_key, now, expedite=expedite)
    if expedite:
        _hand_on(connection, lease, now, reread=reread)


def run_plan(
    connection: apsw.Connection,
    scope: str,
    session_key: str,
    session_plan: SessionPlan | None,
    scope_plan: ScopePlan | None = None,
) -> None:
    """Asks the schedule, inside the transaction, with the state after the change."""
    if session_plan:
        for due in session_plan(session_state(connection, scope, session_key)):
            jobs.plan_due(connection, due, scope, session_key)
    if scope_plan:
        for due in scope_plan(scope_state(connection, scope)):
            jobs.plan_due(connection, due, scope, session_key)


def request_all(
    connection: apsw.Connection,
    now: int,
    *,
    scope: str | None,
    session_key: str | None,
    expedite: bool,
    parked: bool,
    space: int | None,
    reread: bool = False,
) -> int:
    """Everything that waits is due now. An expedited session reaches the scope's persona and the vectors too."""
    wanted: dict[JobKey, None] = {}
    if parked:
        wanted.update(dict.fromkeys(parking.reopen(connection, scope, session_key)))
        _forget_refusals(connection, space)
    wanted.update(dict.fromkeys(_unread_sessions(connection, scope, session_key)))
    if reread and expedite:
        again = rule_reads.sessions_to_reread(connection, scope, session_key)
        wanted.update(dict.fromkeys((JobKind.L1, *row) for row in again))
    wanted.update(dict.fromkeys(_sessions_with_atoms(connection, scope, session_key)))
    if session_key is None or expedite:
        wanted.update(dict.fromkeys(_changed_scopes(connection, scope, _busy_scopes(wanted, expedite))))
        if space is not None and _unembedded(connection):
            wanted[(JobKind.EMBED, "", "")] = None
    for key in wanted:
        jobs.request_job(connection, *key, now, expedite=expedite)
    return len(wanted)


def is_idle(connection: apsw.Connection, space: int | None, *, reread: bool = False) -> bool:
    questions = (
        "select 1 from jobs indexed by jobs_leased where leased_until is not null",
        "select 1 from jobs indexed by jobs_expedited where expedite = 1 and due_at is not null",
        "select 1 from jobs indexed by jobs_retrying where attempts > 0 and due_at is not null",
        "select 1 from parked where kind = 'l1' and resolved_at is null and reopened = 1",
        "select 1 from sessions indexed by sessions_unread where last_seq > l1_cursor",
    )
    if any(first_value(connection, f"{question} limit 1") for question in questions):
        return False
    if space is not None and _unembedded(connection):
        return False
    if reread and rule_reads.sessions_to_reread(connection, None, None):
        return False
    return not _sessions_with_atoms(connection, None, None) and not _changed_scopes(connection, None, set())


def has_work(connection: apsw.Connection, kind: JobKind, scope: str, session_key: str, *, reread: bool = False) -> bool:
    """Whether there is input for the job that it has not failed on."""
    if kind is JobKind.L1:
        return (
            bool(_unread_sessions(connection, scope, session_key))
            or bool(parking.reopened_batch(connection, scope, session_key))
            or (reread and rule_reads.first_run(connection, scope, session_key) is not None)
        )
    if kind is JobKind.L2:
        return pending_atoms(connection, scope, session_key) > 0
    return kind is JobKind.EMBED or pending_scenes(connection, scope) > 0


def _hand_on(connection: apsw.Connection, lease: Lease, now: int, *, reread: bool) -> None:
    """A flush goes through the layers: the session's L1 until nothing is unread, then its L2, then the scope's L3."""
    scope, session_key = lease.scope, lease.session_key
    if lease.kind not in (JobKind.L1, JobKind.L2):
        return
    for kind in (JobKind.L1, JobKind.L2):
        if has_work(connection, kind, scope, session_key, reread=reread):
            jobs.request_job(connection, kind, scope, session_key, now, expedite=True)
            return
    others = first_value(
        connection,
        "select 1 from jobs indexed by jobs_expedited where scope = ? and expedite = 1 and kind in ('l1', 'l2')"
        " and attempts = 0 and (due_at is not null or leased_until is not null) limit 1",
        (scope,),
    )
    if not others and has_work(connection, JobKind.L3, scope, ""):
        jobs.request_job(connection, JobKind.L3, scope, "", now, expedite=True)


def _not_later(connection: apsw.Connection, due: Due, lease: Lease) -> Due:
    """Dues that were worked out before the transaction do not put off what arrived since."""
    arrived = first_value(connection, "select due_at from jobs where id = ? and kind = ?", (lease.job_id, due.kind))
    if arrived is None:
        return due
    return Due(due.kind, int(arrived) if due.at is None else min(due.at, int(arrived)))


def _unread_sessions(connection: apsw.Connection, scope: str | None, session_key: str | None) -> list[JobKey]:
    rows = select(
        connection,
        "select scope, session_key from sessions indexed by sessions_unread where last_seq > l1_cursor"
        " and (:scope is null or scope = :scope) and (:session_key is null or session_key = :session_key)",
        {"scope": scope, "session_key": session_key},
    )
    return [(JobKind.L1, *row) for row in rows]


def _sessions_with_atoms(connection: apsw.Connection, scope: str | None, session_key: str | None) -> list[JobKey]:
    rows = select(
        connection,
        "select scope, session_key from sessions indexed by sessions_with_atoms where last_atom_seq > l2_cursor"
        " and (:scope is null or scope = :scope) and (:session_key is null or session_key = :session_key)",
        {"scope": scope, "session_key": session_key},
    )
    return [(JobKind.L2, *row) for row in rows if pending_atoms(connection, *row)]


def _changed_scopes(connection: apsw.Connection, scope: str | None, without: set[str]) -> list[JobKey]:
    rows = select(
        connection, "select scope from scope_state where (:scope is null or scope = :scope)", {"scope": scope}
    )
    return [(JobKind.L3, name, "") for (name,) in rows if name not in without and pending_scenes(connection, name)]


def _busy_scopes(wanted: Iterable[JobKey], expedite: bool) -> set[str]:
    """In a flush the persona waits for its scope's atoms and scenes, which lead to it (`_hand_on`)."""
    return {scope for kind, scope, _ in wanted if expedite and kind in (JobKind.L1, JobKind.L2)}


def _unembedded(connection: apsw.Connection) -> bool:
    return first_value(connection, "select 1 from embed_queue limit 1") is not None


def _forget_refusals(connection: apsw.Connection, space: int | None) -> None:
    if space is None:
        return
    connection.execute(
        "insert or ignore into embed_queue select layer, seq from embeddings where space = ? and refused = 1", (space,)
    )
    connection.execute("delete from embeddings where space = ? and refused = 1", (space,))
