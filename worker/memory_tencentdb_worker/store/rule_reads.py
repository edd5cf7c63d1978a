"""What only rules have read: remembered as runs of messages, so that a model can read them again later."""

from __future__ import annotations

import apsw

from memory_tencentdb_worker.models import BY_RULES, Atom, JobKind, L1Batch
from memory_tencentdb_worker.store.connection import Row, first_row, first_value, select
from memory_tencentdb_worker.store.rows import ATOM_COLUMNS, atoms_of

_HELD = (
    "exists (select 1 from messages m where m.scope = r.scope and m.session_key = r.session_key"
    " and m.seq between r.from_seq and r.to_seq)"
)
"""A run whose messages were all forgotten holds no work."""


def note_read(connection: apsw.Connection, batch: L1Batch) -> None:
    """Rules have read the batch. To be called before the cursor moves: what follows the newest run makes it longer."""
    if batch.reread:
        return
    connection.execute(
        "update rule_read set to_seq = :to where id = (select max(r.id) from rule_read r join sessions s"
        "  on s.scope = r.scope and s.session_key = r.session_key where r.scope = :scope"
        "  and r.session_key = :session_key and r.to_seq = s.l1_cursor) and :parked is null",
        _of(batch),
    )
    if connection.changes() == 0:
        connection.execute(
            "insert into rule_read(scope, session_key, from_seq, to_seq) values (:scope, :session_key, :from, :to)",
            _of(batch),
        )


def take_off(connection: apsw.Connection, batch: L1Batch) -> None:
    """A model has read the batch, or could not: its messages, the head of a run, are no longer to be read again."""
    connection.execute(
        "update rule_read set from_seq = :to + 1 where scope = :scope and session_key = :session_key"
        " and from_seq between :from and :to",
        _of(batch),
    )
    connection.execute(
        "delete from rule_read where scope = ? and session_key = ? and from_seq > to_seq",
        (batch.scope, batch.session_key),
    )


def first_run(connection: apsw.Connection, scope: str, session_key: str) -> tuple[int, int] | None:
    """First and last `seq` of the session's oldest run."""
    row = first_row(
        connection,
        f"select from_seq, to_seq from rule_read r where scope = ? and session_key = ? and {_HELD} order by id limit 1",
        (scope, session_key),
    )
    return (int(row[0]), int(row[1])) if row else None


def sessions_to_reread(connection: apsw.Connection, scope: str | None, session_key: str | None) -> list[Row]:
    """Scope and session key, the one read first by rules first."""
    return select(
        connection,
        f"select scope, session_key from rule_read r where {_HELD} and (:scope is null or scope = :scope)"
        " and (:session_key is null or session_key = :session_key) group by scope, session_key order by min(id)",
        {"scope": scope, "session_key": session_key},
    )


def next_session(connection: apsw.Connection, now: int) -> tuple[str, str] | None:
    """The session whose turn it is to be read again: one that has nothing unread and no failed try to wait for."""
    row = first_row(
        connection,
        "select r.scope, r.session_key from rule_read r"
        " join sessions s on s.scope = r.scope and s.session_key = r.session_key"
        " left join jobs j on j.kind = ? and j.scope = r.scope and j.session_key = r.session_key"
        f" where s.last_seq <= s.l1_cursor and {_HELD}"
        "  and (j.id is null or (j.leased_until is null and (j.attempts = 0 or coalesce(j.due_at, 0) <= ?)))"
        " order by r.id limit 1",
        (JobKind.L1, now),
    )
    return (str(row[0]), str(row[1])) if row else None


def count_turns(connection: apsw.Connection) -> int:
    return int(
        first_value(
            connection,
            "select count(*) from (select distinct t.scope, t.session_key, t.turn_id from rule_read r join turns t"
            " on t.scope = r.scope and t.session_key = r.session_key and t.last_seq between r.from_seq and r.to_seq)",
        )
    )


def atoms_of_batch(connection: apsw.Connection, batch: L1Batch) -> list[Atom]:
    """Rule-made atoms, superseded ones too, that rest on a message of the batch and on none that a later batch will
    read again."""
    rows = select(
        connection,
        f"select {ATOM_COLUMNS} from atoms a where a.extractor = :rules and a.seq in ("
        "  select x.atom from messages m join atom_sources x on x.message = m.seq"
        "  where m.scope = :scope and m.session_key = :session_key and m.seq between :from and :to)"
        " and not exists (select 1 from atom_sources x join messages m on m.seq = x.message"
        "  join rule_read r on r.scope = m.scope and r.session_key = m.session_key"
        "   and m.seq between r.from_seq and r.to_seq"
        "  where x.atom = a.seq and not (m.session_key = :session_key and m.seq between :from and :to))"
        " order by a.seq",
        {**_of(batch), "rules": BY_RULES},
    )
    return atoms_of(connection, rows)


def _of(batch: L1Batch) -> dict[str, str | int | None]:
    return {
        "scope": batch.scope,
        "session_key": batch.session_key,
        "from": batch.messages[0].seq,
        "to": batch.to_seq,
        "parked": batch.parked_id,
    }
