"""The schedule as rows: arming, leasing and giving back jobs.

A lease empties the job's due time, so work that arrives while it runs can set it again. What a finished job leaves
behind is decided by the plan, which sees everything that arrived; a wish of a person (`requested`) outlives the run.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import Due, FailingJob, JobCounts, JobKind, Lease
from memory_tencentdb_worker.store.connection import Row, first_row, first_value, select
from memory_tencentdb_worker.store.sessions import newest_atom, newest_scene

_BLOCKED = (
    "j.kind in ('l2', 'l3') and exists (select 1 from jobs o indexed by jobs_leased where o.leased_until > :now"
    " and o.scope = j.scope and o.kind in ('l2', 'l3') and o.id <> j.id)"
)
"""L2 and L3 of one scope work on the same documents."""

_WISHED = "(:any or j.expedite = 1)"


def plan_due(connection: apsw.Connection, due: Due, scope: str, session_key: str) -> None:
    """Sets a due time as the schedule gives it. Two cases are kept from it: a flush is never put off, and a parked
    job stays parked until there is input that it has not failed on."""
    key = job_key(due.kind, scope, session_key)
    if due.at is None:
        connection.execute(
            "update jobs set due_at = null where kind = ? and scope = ? and session_key = ?"
            " and expedite = 0 and requested = 0",
            key,
        )
        return
    mark = first_value(connection, "select parked_mark from jobs where kind = ? and scope = ? and session_key = ?", key)
    if mark is not None:
        if input_mark(connection, *key) <= int(mark):
            return
        unpark(connection, *key)
    connection.execute(
        "insert into jobs(kind, scope, session_key, due_at) values (?, ?, ?, ?)"
        " on conflict(kind, scope, session_key) do update set due_at ="
        " case when due_at is not null and (expedite or requested) then min(due_at, excluded.due_at)"
        " else excluded.due_at end",
        (*key, due.at),
    )


def request_job(
    connection: apsw.Connection, kind: JobKind, scope: str, session_key: str, now: int, *, expedite: bool
) -> None:
    """Makes a job due now because someone asked for it; due earlier stays earlier."""
    connection.execute(
        "insert into jobs(kind, scope, session_key, due_at, requested, expedite) values (?, ?, ?, ?, 1, ?)"
        " on conflict(kind, scope, session_key) do update set due_at = min(coalesce(due_at, excluded.due_at),"
        " excluded.due_at), requested = 1, expedite = max(expedite, excluded.expedite)",
        (*job_key(kind, scope, session_key), now, int(expedite)),
    )


def arm_embedding(connection: apsw.Connection, now: int) -> None:
    """There is something to embed. A job that waits after a failure keeps its time."""
    connection.execute(
        "insert into jobs(kind, scope, session_key, due_at) values ('embed', '', '', ?)"
        " on conflict(kind, scope, session_key) do update set due_at ="
        " case when attempts > 0 and due_at is not null then due_at"
        " else min(coalesce(due_at, excluded.due_at), excluded.due_at) end",
        (now,),
    )


def take_job(
    connection: apsw.Connection,
    kinds: Sequence[JobKind],
    now: int,
    lease_ms: int,
    owner: str,
    *,
    expedited_only: bool = False,
) -> Lease | None:
    row = _first_due(connection, kinds, now, expedited_only)
    if row is None:
        return None
    job, kind, scope, session_key, attempts, expedite = row
    token = first_value(
        connection,
        "update jobs set due_at = null, requested = 0, leased_until = ?, lease_owner = ?,"
        " lease_token = lease_token + 1, atom_mark = ?, scene_mark = ?,"
        " persona_mark = coalesce((select max(seq) from persona_revisions where scope = ?), 0)"
        " where id = ? returning lease_token",
        (now + lease_ms, owner, newest_atom(connection, scope), newest_scene(connection, scope), scope, job),
    )
    return Lease(job, JobKind(kind), scope, session_key, attempts, now + lease_ms, owner, bool(expedite), token)


def extend_lease(connection: apsw.Connection, lease: Lease, leased_until: int) -> bool:
    row = first_row(
        connection,
        "update jobs set leased_until = ? where id = ? and lease_owner = ? and lease_token = ?"
        " and leased_until is not null returning id",
        (leased_until, lease.job_id, lease.owner, lease.token),
    )
    return row is not None


def end_lease(connection: apsw.Connection, lease: Lease) -> tuple[int | None, bool]:
    """Frees the job, its attempts and error forgotten. Returns the time for which it was asked meanwhile, if it was,
    and whether a flush waits for it. Raises StoreError (lease_lost) when someone else may be at it."""
    due_at, requested, expedite = check_lease(connection, lease)
    connection.execute(
        "update jobs set leased_until = null, lease_owner = null, attempts = 0, last_error = null, expedite = 0,"
        " requested = 0, parked_mark = null where id = ?",
        (lease.job_id,),
    )
    return (due_at if requested else None), bool(expedite)


def check_lease(connection: apsw.Connection, lease: Lease) -> Row:
    row = first_row(
        connection,
        "select due_at, requested, expedite from jobs where id = ? and lease_owner = ? and lease_token = ?"
        " and leased_until is not null",
        (lease.job_id, lease.owner, lease.token),
    )
    if row is None:
        raise StoreError(f"job {lease.job_id} is not ours any more: nothing was written", code="lease_lost")
    return row


def put_off(connection: apsw.Connection, lease: Lease, at: int, error: str) -> None:
    """A failed try: due again at `at`, or when work arrived that is due earlier."""
    check_lease(connection, lease)
    connection.execute(
        "update jobs set leased_until = null, lease_owner = null, attempts = attempts + 1, last_error = ?,"
        " due_at = min(coalesce(due_at, ?), ?) where id = ?",
        (error, at, at, lease.job_id),
    )


def free_leases(connection: apsw.Connection, now: int, owner: str | None) -> int:
    """Gives leases back, due at once; `owner` None means all."""
    connection.execute(
        "update jobs set leased_until = null, lease_owner = null, due_at = min(coalesce(due_at, ?), ?)"
        " where leased_until is not null and (? is null or lease_owner = ?)",
        (now, now, owner, owner),
    )
    return connection.changes()


def count_done(connection: apsw.Connection) -> None:
    connection.execute("update meta set value = value + 1 where key = 'jobs_done'")


def count_unsupported(connection: apsw.Connection, items: int) -> None:
    connection.execute(
        "insert into meta(key, value) values ('unsupported', ?)"
        " on conflict(key) do update set value = value + excluded.value",
        (items,),
    )


def note_extraction(connection: apsw.Connection, now: int) -> None:
    connection.execute(
        "insert into meta(key, value) values ('last_extraction_at', ?)"
        " on conflict(key) do update set value = excluded.value",
        (now,),
    )


def next_due(connection: apsw.Connection, kinds: Sequence[JobKind], *, expedited_only: bool = False) -> int | None:
    """A job behind another one of its scope counts from the end of that lease."""
    value = first_value(
        connection,
        f"select min(at) from (select due_at as at from jobs j where due_at is not null and leased_until is null"
        f" and {_kinds(kinds)} and not ({_BLOCKED}) and {_WISHED}"
        f" union all select leased_until from jobs j where leased_until is not null and {_kinds(kinds)} and {_WISHED})",
        {"now": 0, "any": int(not expedited_only)},
    )
    return None if value is None else int(value)


def pull_forward(connection: apsw.Connection, kinds: Sequence[JobKind], now: int, longest_ms: int) -> int:
    """Makes due now what lies further ahead than any schedule puts a job. Returns how many jobs that are."""
    connection.execute(
        "update jobs as j indexed by jobs_due set due_at = ?"
        f" where leased_until is null and due_at is not null and due_at > ? and {_kinds(kinds)}",
        (now, now + longest_ms),
    )
    return connection.changes()


def failing_jobs(connection: apsw.Connection, limit: int) -> list[FailingJob]:
    """The most tried first."""
    rows = select(
        connection,
        "select kind, scope, session_key, attempts, last_error, due_at from jobs indexed by jobs_retrying"
        " where attempts > 0 and last_error is not null order by attempts desc, id limit ?",
        (max(limit, 0),),
    )
    return [FailingJob(JobKind(kind), *rest) for kind, *rest in rows]


def job_counts(connection: apsw.Connection, now: int) -> JobCounts:
    due, running, retrying, waiting, oldest = first_row(
        connection,
        "select count(*) filter (where at <= :now), count(*) filter (where leased_until > :now),"
        " count(*) filter (where at > :now and attempts > 0), count(*) filter (where at > :now and attempts = 0),"
        " min(at) filter (where at <= :now)"
        " from (select attempts, leased_until, case when leased_until is null then due_at"
        "  when leased_until <= :now then leased_until end as at"
        "  from jobs where due_at is not null or leased_until is not null)",
        {"now": now},
    ) or (0, 0, 0, 0, None)
    parked = first_value(connection, "select count(*) from parked where resolved_at is null and reopened = 0")
    return JobCounts(due=due, running=running, retrying=retrying, parked=parked, waiting=waiting, oldest_due_at=oldest)


def job_loads(connection: apsw.Connection, now: int) -> dict[str, tuple[int, int]]:
    """By kind of job: how many are due, and how many are running."""
    rows = select(
        connection,
        "select kind, count(*) filter (where leased_until is null and due_at <= :now),"
        " count(*) filter (where leased_until > :now) from jobs group by kind",
        {"now": now},
    )
    return {kind: (due, running) for kind, due, running in rows}


def input_mark(connection: apsw.Connection, kind: JobKind, scope: str, session_key: str) -> int:
    """How new the newest input of a job is: an atom of the session for L2, a scene for L3."""
    return newest_scene(connection, scope) if kind is JobKind.L3 else newest_atom(connection, scope, session_key)


def unpark(connection: apsw.Connection, kind: JobKind, scope: str, session_key: str) -> None:
    """The job may run again; its record stays open until it succeeds."""
    connection.execute(
        "update jobs set parked_mark = null where kind = ? and scope = ? and session_key = ?",
        (kind, scope, session_key),
    )
    connection.execute(
        "update parked set reopened = 1 where kind = ? and scope = ? and session_key = ? and resolved_at is null",
        (kind, scope, session_key),
    )


def job_key(kind: JobKind, scope: str, session_key: str) -> tuple[JobKind, str, str]:
    """L3 belongs to a scope, EMBED to the store."""
    if kind is JobKind.EMBED:
        return kind, "", ""
    return kind, scope, "" if kind is JobKind.L3 else session_key


def _first_due(connection: apsw.Connection, kinds: Sequence[JobKind], now: int, expedited_only: bool) -> Row | None:
    """A job whose lease has run out, else the one due longest of the first kind that has any."""
    columns = "j.id, j.kind, j.scope, j.session_key, j.attempts, j.expedite"
    values = {"now": now, "any": int(not expedited_only)}
    abandoned = first_row(
        connection,
        f"select {columns} from jobs j indexed by jobs_leased where j.leased_until <= :now and {_kinds(kinds)}"
        f" and not ({_BLOCKED}) and {_WISHED} order by j.leased_until limit 1",
        values,
    )
    if abandoned:
        return abandoned
    for kind in kinds:
        row = first_row(
            connection,
            f"select {columns} from jobs j indexed by jobs_due where j.leased_until is null and j.due_at is not null"
            f" and j.due_at <= :now and {_kinds([kind])} and not ({_BLOCKED}) and {_WISHED}"
            " order by j.due_at, j.attempts, j.id limit 1",
            values,
        )
        if row:
            return row
    return None


def _kinds(kinds: Sequence[JobKind]) -> str:
    names = ", ".join(f"'{JobKind(kind)}'" for kind in kinds)
    return f"j.kind in ({names})"
