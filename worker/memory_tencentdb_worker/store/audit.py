"""Who changed what: ids and hashes only, so that forgetting a text never has to search here."""

from __future__ import annotations

import apsw


def record_change(
    connection: apsw.Connection, now: int, scope: str, action: str, target: str, before: str | None, after: str | None
) -> None:
    connection.execute(
        "insert into audit(at, scope, action, target, before, after) values (?, ?, ?, ?, ?, ?)",
        (now, scope, action, target, before, after),
    )
