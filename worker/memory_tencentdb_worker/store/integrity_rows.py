"""What must hold between the rows of L0, L1 and the schedule, each as one question that names the rows for which it
does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import apsw

from memory_tencentdb_worker.store.connection import select
from memory_tencentdb_worker.text.ids import text_hash
from memory_tencentdb_worker.text.segment import fold


@dataclass(frozen=True)
class Fault:
    """One kind of thing that is wrong, and the ids of what it concerns."""

    code: str
    where: tuple[str, ...]


SOUND = "m.scope = a.scope and x.hash = m.hash and m.hash = text_hash(m.text)"
"""Of a message m, a source x and an atom a: the source still says what it said when the atom was made."""

SUPPORTED = (
    f"exists (select 1 from atom_sources x join messages m on m.seq = x.message where x.atom = a.seq and {SOUND})"
)

UNREAD_WITHOUT_JOB = (
    "select s.scope, s.session_key from sessions s where s.last_seq > s.l1_cursor and not exists (select 1 from jobs j"
    " where j.kind = 'l1' and j.scope = s.scope and j.session_key = s.session_key"
    " and (j.due_at is not null or j.leased_until is not null))"
)

NEW_ATOMS_WITHOUT_JOB = (
    "select s.scope, s.session_key from sessions s where s.last_atom_seq > s.l2_cursor"
    " and exists (select 1 from atoms a where a.scope = s.scope and a.session_key = s.session_key"
    "  and a.superseded_at is null and a.seq > max(s.l2_cursor,"
    "  coalesce((select parked_mark from jobs p where p.kind = 'l2' and p.scope = s.scope"
    "   and p.session_key = s.session_key), 0)))"
    " and not exists (select 1 from jobs j where j.kind = 'l2' and j.scope = s.scope and j.session_key = s.session_key"
    "  and (j.due_at is not null or j.leased_until is not null))"
)

_TWIN_GROUPS = (
    "from atoms a where a.superseded_at is null"
    " group by a.scope, a.type, fold(a.content), coalesce(a.activity_start, 0), coalesce(a.activity_end, 0),"
    " case when a.type = 'episodic' then a.said_at else 0 end having count(*) > 1"
)
"""The same words at another time are another event, but the same fact and the same rule."""

TWINS = f"select max(a.seq), group_concat(a.seq) {_TWIN_GROUPS}"

_MESSAGE_GONE = (
    "select t.turn_id from turns t where not exists (select 1 from messages m where m.seq = t.last_seq"
    " and m.scope = t.scope and m.session_key = t.session_key and m.turn_id = t.turn_id)"
)

_READING_EVERYTHING: tuple[tuple[str, str], ...] = (
    ("message_altered", "select id from messages where hash <> text_hash(text)"),
    ("atom_unsupported", f"select a.id from atoms a where a.superseded_at is null and not {SUPPORTED}"),
    (
        "atom_doubtful",
        f"select a.id from atoms a where a.superseded_at is null and {SUPPORTED}"
        f" and exists (select 1 from atom_sources x join messages m on m.seq = x.message where x.atom = a.seq"
        f"  and not ({SOUND}))",
    ),
    (
        "atom_twins",
        f"select (select id from atoms n where n.seq = g.newest) from (select max(a.seq) as newest {_TWIN_GROUPS}) g",
    ),
)

_QUICK: tuple[tuple[str, str], ...] = (
    (
        "turn_lost",
        "select m.id from messages m where not exists (select 1 from turns t where t.scope = m.scope"
        " and t.turn_id = m.turn_id and t.session_key = m.session_key)",
    ),
    ("message_gone", _MESSAGE_GONE),
    (
        "session_lost",
        "select m.session_key from messages m left join sessions s on s.scope = m.scope"
        " and s.session_key = m.session_key group by m.scope, m.session_key"
        " having max(m.seq) > coalesce(s.last_seq, -1)",
    ),
    (
        "source_gone",
        "select distinct a.id from atom_sources x join atoms a on a.seq = x.atom"
        " where not exists (select 1 from messages m where m.seq = x.message)",
    ),
    (
        "source_orphan",
        "select distinct 'atom row ' || x.atom from atom_sources x"
        " where not exists (select 1 from atoms a where a.seq = x.atom)",
    ),
    (
        "successor_gone",
        "select a.id from atoms a where a.superseded_by is not null"
        " and not exists (select 1 from atoms n where n.id = a.superseded_by)",
    ),
    (
        "job_lost",
        f"select session_key from ({UNREAD_WITHOUT_JOB}) union select session_key from ({NEW_ATOMS_WITHOUT_JOB})",
    ),
)


def look_at_rows(connection: apsw.Connection, *, quick: bool) -> list[Fault]:
    """`quick` leaves out what reads every text."""
    offer_proof(connection)
    checks = _QUICK if quick else (*_QUICK, *_READING_EVERYTHING)
    return [found for code, sql in checks if (found := fault(code, select(connection, sql))) is not None]


def fault(code: str, rows: Iterable[tuple[object, ...]]) -> Fault | None:
    """None when there is no row. The first column names what it concerns."""
    where = tuple(str(row[0]) for row in rows)
    return Fault(code, where) if where else None


def offer_proof(connection: apsw.Connection) -> None:
    """What the questions call."""
    connection.create_scalar_function("text_hash", lambda *values: text_hash(values[0]), 1, deterministic=True)
    connection.create_scalar_function("fold", lambda *values: fold(values[0]), 1, deterministic=True)
