"""Who changed what: ids and hashes only, so that forgetting a text never has to search here."""

from __future__ import annotations

from dataclasses import dataclass

import apsw

from memory_tencentdb_worker.store.connection import select


@dataclass(frozen=True)
class Change:
    """One line of the audit: ids and hashes, never text."""

    id: int
    at: int
    scope: str
    action: str
    target: str
    before: str | None
    after: str | None


def record_change(
    connection: apsw.Connection, now: int, scope: str, action: str, target: str, before: str | None, after: str | None
) -> None:
    connection.execute(
        "insert into audit(at, scope, action, target, before, after) values (?, ?, ?, ?, ?, ?)",
        (now, scope, action, target, before, after),
    )


def newest_changes(connection: apsw.Connection, limit: int, scope: str | None) -> list[Change]:
    """The newest first."""
    rows = select(
        connection,
        "select id, at, scope, action, target, before, after from audit where (:scope is null or scope = :scope)"
        " order by id desc limit :limit",
        {"scope": scope, "limit": max(limit, 0)},
    )
    return [Change(*row) for row in rows]
