"""What the schedule is told: the state of a session and of a scope, derived from the tables."""

from __future__ import annotations

import apsw

from memory_tencentdb_worker.models import JobKind, ScopeState, SessionState
from memory_tencentdb_worker.store.connection import first_row, first_value

PENDING_LIMIT = 10_000
"""Counts of pending turns and atoms stop here, so that a long backlog does not make every capture slower."""

_CHANGES = ("message_changes", "atom_changes", "scene_changes", "persona_changes")


def session_state(connection: apsw.Connection, scope: str, session_key: str) -> SessionState:
    l1_cursor, l1_runs, last_active_at, last_l2_at = first_row(
        connection,
        "select l1_cursor, l1_runs, last_active_at, last_l2_at from sessions where scope = ? and session_key = ?",
        (scope, session_key),
    ) or (0, 0, 0, None)
    return SessionState(
        scope=scope,
        session_key=session_key,
        pending_turns=int(
            first_value(
                connection,
                "select count(*) from (select 1 from turns"
                " where scope = ? and session_key = ? and last_seq > ? limit ?)",
                (scope, session_key, l1_cursor, PENDING_LIMIT),
            )
        ),
        l1_runs=l1_runs,
        pending_atoms=pending_atoms(connection, scope, session_key),
        last_active_at=last_active_at,
        last_l2_at=last_l2_at,
        l1_due_at=due_at(connection, JobKind.L1, scope, session_key),
        l2_due_at=due_at(connection, JobKind.L2, scope, session_key),
    )


def scope_state(connection: apsw.Connection, scope: str) -> ScopeState:
    processed, request, atom_mark = first_row(
        connection,
        "select scenes_processed, persona_request, persona_atom_mark from scope_state where scope = ?",
        (scope,),
    ) or (0, "", 0)
    return ScopeState(
        scope=scope,
        atoms_since_persona=int(
            first_value(
                connection,
                "select count(*) from (select 1 from atoms"
                " where scope = ? and superseded_at is null and seq > ? limit ?)",
                (scope, atom_mark, PENDING_LIMIT),
            )
        ),
        scenes=int(
            first_value(
                connection,
                "select count(*) from scene_revisions where scope = ? and newest = 1 and status = 'active'",
                (scope,),
            )
        ),
        scenes_processed=processed,
        changed_scenes=pending_scenes(connection, scope),
        has_persona=_has_persona(connection, scope),
        persona_request=request,
        l3_due_at=due_at(connection, JobKind.L3, scope, ""),
    )


def pending_atoms(connection: apsw.Connection, scope: str, session_key: str) -> int:
    """Live atoms that no scene run has read; those of a parked run do not count until something new arrives."""
    return int(
        first_value(
            connection,
            "select count(*) from (select 1 from atoms where scope = :scope and session_key = :session_key"
            " and superseded_at is null and seq > max("
            "  coalesce((select l2_cursor from sessions where scope = :scope and session_key = :session_key), 0),"
            "  coalesce((select parked_mark from jobs"
            "            where kind = 'l2' and scope = :scope and session_key = :session_key), 0)) limit :limit)",
            {"scope": scope, "session_key": session_key, "limit": PENDING_LIMIT},
        )
    )


def pending_scenes(connection: apsw.Connection, scope: str) -> int:
    """Active scenes changed since the last persona; those of a parked run do not count."""
    return int(
        first_value(
            connection,
            "select count(*) from scene_revisions where scope = :scope and newest = 1 and status = 'active'"
            " and seq > max("
            "  coalesce((select persona_scene_mark from scope_state where scope = :scope), 0),"
            "  coalesce((select parked_mark from jobs where kind = 'l3' and scope = :scope and session_key = ''), 0))",
            {"scope": scope},
        )
    )


def due_at(connection: apsw.Connection, kind: JobKind, scope: str, session_key: str) -> int | None:
    value = first_value(
        connection,
        "select due_at from jobs where kind = ? and scope = ? and session_key = ?",
        (kind, scope, session_key),
    )
    return None if value is None else int(value)


def newest_atom(connection: apsw.Connection, scope: str, session_key: str | None = None) -> int:
    """The highest `seq` of a live atom, 0 when there is none."""
    if session_key is None:
        value = first_value(
            connection, "select max(seq) from atoms where scope = ? and superseded_at is null", (scope,)
        )
    else:
        value = first_value(
            connection,
            "select max(seq) from atoms where scope = ? and session_key = ? and superseded_at is null",
            (scope, session_key),
        )
    return int(value or 0)


def newest_scene(connection: apsw.Connection, scope: str) -> int:
    """The `seq` of the newest scene revision of the scope, 0 when there is none."""
    value = first_value(connection, "select max(seq) from scene_revisions where scope = ? and newest = 1", (scope,))
    return int(value or 0)


def count_change(connection: apsw.Connection, scope: str, counter: str) -> None:
    """Moves one number of the scope's change mark on; makes the scope known."""
    connection.execute(
        f"insert into scope_state(scope, {counter}) values (?, 1)"
        f" on conflict(scope) do update set {counter} = {counter} + 1",
        (scope,),
    )


def change_mark(connection: apsw.Connection, scope: str) -> tuple[int, int, int, int]:
    row = first_row(connection, f"select {', '.join(_CHANGES)} from scope_state where scope = ?", (scope,))
    if row is None:
        return (0, 0, 0, 0)
    return (row[0], row[1], row[2], row[3])


def touch_session(
    connection: apsw.Connection,
    scope: str,
    session_key: str,
    session_id: str,
    now: int,
    *,
    last_seq: int = 0,
    last_atom_seq: int = 0,
) -> None:
    """Makes the session known; new messages or atoms move its newest on, messages make it active."""
    connection.execute(
        "insert into sessions(scope, session_key, session_id, last_seq, last_atom_seq, last_active_at)"
        " values (:scope, :session_key, :session_id, :last_seq, :last_atom_seq, :now)"
        " on conflict(scope, session_key) do update set"
        "  session_id = case when :last_seq > 0 then excluded.session_id else session_id end,"
        "  last_seq = max(last_seq, excluded.last_seq),"
        "  last_atom_seq = max(last_atom_seq, excluded.last_atom_seq),"
        "  last_active_at = case when :last_seq > 0 then max(last_active_at, excluded.last_active_at)"
        "                        else last_active_at end",
        {
            "scope": scope,
            "session_key": session_key,
            "session_id": session_id,
            "now": now,
            "last_seq": last_seq,
            "last_atom_seq": last_atom_seq,
        },
    )


def _has_persona(connection: apsw.Connection, scope: str) -> bool:
    """An empty persona counts as none: it is to be made again."""
    sections = first_value(
        connection, "select sections from persona_revisions where scope = ? order by revision desc limit 1", (scope,)
    )
    return sections not in (None, "[]")
