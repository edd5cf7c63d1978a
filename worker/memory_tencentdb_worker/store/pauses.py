"""Spans of time in which nothing is remembered: of everybody or one user, of all sessions or some."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import apsw

from memory_tencentdb_worker.store.connection import select

_COLUMNS = "id, scope, session, since, until"


@dataclass(frozen=True)
class Pause:
    """`scope` None: everybody's; `session` None: all sessions, with a `*` in it those that match; `until` None: until
    it is ended."""

    id: int
    scope: str | None
    session: str | None
    since: int
    until: int | None


def begin(
    connection: apsw.Connection, scope: str | None, session: str | None, since: int, until: int | None, now: int
) -> Pause:
    connection.execute(
        "insert into pauses(scope, session, since, until, made_at) values (?, ?, ?, ?, ?)",
        (scope, session, since, until, now),
    )
    return Pause(connection.last_insert_rowid(), scope, session, since, until)


def end(connection: apsw.Connection, scope: str | None, session: str | None, now: int) -> list[Pause]:
    """Ends what is in force for exactly this user and session (None: for any). The span stays: a turn that was said in
    it and comes late is not remembered either."""
    ended = [
        one
        for one in in_force(connection, now)
        if (scope is None or one.scope == scope) and (session is None or one.session == session)
    ]
    connection.executemany("update pauses set until = ? where id = ?", [(now, one.id) for one in ended])
    return ended


def in_force(connection: apsw.Connection, now: int) -> list[Pause]:
    """Those that have not ended yet, planned ones included."""
    rows = select(connection, f"select {_COLUMNS} from pauses where until is null or until > ? order by id", (now,))
    return [Pause(*row) for row in rows]


def covers(connection: apsw.Connection, scope: str, session_key: str, at: int) -> bool:
    """Whether what was said then, in this session, is not to be remembered."""
    rows = select(
        connection,
        f"select {_COLUMNS} from pauses where since <= :at and (until is null or until > :at)"
        " and (scope is null or scope = :scope)",
        {"at": at, "scope": scope},
    )
    return any(_names(Pause(*row).session, session_key) for row in rows)


def _names(pattern: str | None, session_key: str) -> bool:
    if pattern is None or pattern == session_key:
        return True
    return "*" in pattern and fnmatchcase(session_key, pattern.replace("[", "[[]"))
