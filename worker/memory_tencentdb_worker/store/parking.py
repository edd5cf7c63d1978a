"""What could not be digested: kept with its reason, visible, and tried again when someone asks."""

from __future__ import annotations

import apsw

from memory_tencentdb_worker.models import JobKind, L1Batch, Lease, Parked
from memory_tencentdb_worker.store.connection import first_row, first_value, select
from memory_tencentdb_worker.store.jobs import input_mark, unpark
from memory_tencentdb_worker.store.rows import PARKED_COLUMNS, parked_of

_OPEN = "kind = ? and scope = ? and session_key = ? and resolved_at is null"


def park_batch(connection: apsw.Connection, batch: L1Batch, reason: str, detail: str, now: int) -> None:
    """Sets messages aside. A batch that was re-opened in vain is closed again."""
    if batch.parked_id is not None:
        connection.execute(
            "update parked set reason = ?, detail = ?, parked_at = ?, reopened = 0 where id = ?",
            (reason, detail, now, batch.parked_id),
        )
        return
    connection.execute(
        "insert into parked(kind, scope, session_key, from_seq, to_seq, reason, detail, parked_at)"
        " values ('l1', ?, ?, ?, ?, ?, ?, ?)",
        (batch.scope, batch.session_key, batch.messages[0].seq, batch.to_seq, reason, detail, now),
    )


def park_input(connection: apsw.Connection, lease: Lease, reason: str, detail: str, now: int) -> None:
    """Sets an L2 or L3 job aside: it keeps its input and waits for more, or for a person."""
    mark = lease_mark(connection, lease)
    connection.execute("update jobs set parked_mark = ? where id = ?", (mark, lease.job_id))
    key = (lease.kind, lease.scope, lease.session_key)
    first = first_value(connection, f"select min(from_seq) from parked where {_OPEN}", key)
    resolve(connection, *key, now)
    connection.execute(
        "insert into parked(kind, scope, session_key, from_seq, to_seq, reason, detail, parked_at)"
        " values (?, ?, ?, ?, ?, ?, ?, ?)",
        (*key, mark if first is None else first, mark, reason, detail, now),
    )


def lease_mark(connection: apsw.Connection, lease: Lease) -> int:
    """The newest input that the run can have seen: what came after its start is not parked with it."""
    column = "scene_mark" if lease.kind is JobKind.L3 else "atom_mark"
    seen = int(first_value(connection, f"select {column} from jobs where id = ?", (lease.job_id,)))
    return min(seen, input_mark(connection, lease.kind, lease.scope, lease.session_key))


def resolve(connection: apsw.Connection, kind: JobKind, scope: str, session_key: str, now: int) -> None:
    """The parked job has run."""
    connection.execute(f"update parked set resolved_at = ? where {_OPEN}", (now, kind, scope, session_key))


def resolve_batch(connection: apsw.Connection, parked_id: int, now: int) -> None:
    connection.execute("update parked set resolved_at = ? where id = ?", (now, parked_id))


def reopened_batch(connection: apsw.Connection, scope: str, session_key: str) -> Parked | None:
    row = first_row(
        connection,
        f"select {PARKED_COLUMNS} from parked where {_OPEN} and reopened = 1 order by id limit 1",
        (JobKind.L1, scope, session_key),
    )
    return parked_of(row) if row else None


def reopen(connection: apsw.Connection, scope: str | None, session_key: str | None) -> list[tuple[JobKind, str, str]]:
    """Gives everything that is parked another try; returns the jobs that have to run for it."""
    rows = select(
        connection,
        "select distinct kind, scope, session_key from parked where resolved_at is null"
        " and (:scope is null or scope = :scope)"
        " and (:session_key is null or session_key = :session_key or kind = 'l3')",
        {"scope": scope, "session_key": session_key},
    )
    keys = [(JobKind(kind), owner, session) for kind, owner, session in rows]
    for key in keys:
        unpark(connection, *key)
    return keys


def list_open(connection: apsw.Connection, limit: int) -> list[Parked]:
    """Newest first."""
    rows = select(
        connection,
        f"select {PARKED_COLUMNS} from parked where resolved_at is null order by parked_at desc, id desc limit ?",
        (max(limit, 0),),
    )
    return [parked_of(row) for row in rows]
