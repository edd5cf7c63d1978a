"""What a person asked in a conversation to be forgotten: marked for the owner, who confirms or drops it."""

from __future__ import annotations

import json
from dataclasses import dataclass

import apsw

from memory_tencentdb_worker.store.connection import select


@dataclass(frozen=True)
class Wish:
    """`message` is the id of the message that said it, `targets` are ids of the messages and atoms it speaks of."""

    scope: str
    session_key: str
    message: str
    targets: tuple[str, ...]
    at: int
    id: int = 0


def add(connection: apsw.Connection, wish: Wish, now: int) -> int:
    connection.execute(
        "insert into forget_wishes(scope, session_key, message, targets, at) values (?, ?, ?, ?, ?)",
        (wish.scope, wish.session_key, wish.message, json.dumps(wish.targets), now),
    )
    return int(connection.last_insert_rowid())


def settle(connection: apsw.Connection, id: int, now: int) -> None:
    connection.execute("update forget_wishes set settled_at = ? where id = ?", (now, id))


def open_wishes(connection: apsw.Connection) -> list[Wish]:
    rows = select(
        connection,
        "select scope, session_key, message, targets, at, id from forget_wishes where settled_at is null order by id",
    )
    return [Wish(row[0], row[1], row[2], tuple(json.loads(row[3])), row[4], row[5]) for row in rows]
