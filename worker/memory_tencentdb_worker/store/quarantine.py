"""Messages that are suspected of planting something: kept in L0, but neither extracted nor recalled until a person has
looked at them. The text is not copied, so that forgetting a message leaves nothing of it here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import apsw

from memory_tencentdb_worker.models import JobKind, Message
from memory_tencentdb_worker.store import jobs
from memory_tencentdb_worker.store.connection import first_row, first_value, select
from memory_tencentdb_worker.store.rows import MESSAGE_COLUMNS, message_of

HELD, RELEASED, DROPPED = "held", "released", "dropped"


@dataclass(frozen=True)
class Suspect:
    message: Message
    reasons: tuple[str, ...]
    state: str
    at: int


def hold(connection: apsw.Connection, seq: int, scope: str, reasons: Sequence[str], now: int) -> None:
    """What a person has decided before stays decided."""
    connection.execute(
        "insert into quarantine(message, scope, reasons, state, at) values (?, ?, ?, ?, ?) on conflict do nothing",
        (seq, scope, " ".join(reasons), HELD, now),
    )


def hold_messages(connection: apsw.Connection, suspects: Sequence[tuple[Message, Sequence[str]]], now: int) -> None:
    for message, reasons in suspects:
        hold(connection, message.seq, message.scope, reasons, now)


def states(connection: apsw.Connection, seqs: Sequence[int]) -> dict[int, str]:
    rows = select(
        connection,
        "select message, state from quarantine where message in (select value from json_each(?))",
        (json.dumps(list(seqs)),),
    )
    return {int(seq): str(state) for seq, state in rows}


def held_seqs(connection: apsw.Connection, scope: str) -> frozenset[int]:
    """What must not be recalled by itself: held and dropped messages of the scope."""
    rows = select(
        connection, "select message from quarantine where scope = ? and state in ('held', 'dropped')", (scope,)
    )
    return frozenset(int(row[0]) for row in rows)


def count_held(connection: apsw.Connection) -> tuple[int, int | None]:
    """How many wait for a person, and since when the oldest does."""
    row = first_row(connection, "select count(*), min(at) from quarantine where state = 'held'")
    return (int(row[0]), row[1]) if row else (0, None)


def suspects(connection: apsw.Connection, state: str | None, scope: str | None, limit: int) -> list[Suspect]:
    """The newest first."""
    rows = select(
        connection,
        f"select {MESSAGE_COLUMNS}, q.reasons, q.state, q.at from quarantine q join messages m on m.seq = q.message"
        " where (:state is null or q.state = :state) and (:scope is null or q.scope = :scope)"
        " order by m.seq desc limit :limit",
        {"state": state, "scope": scope, "limit": limit},
    )
    return [_suspect(row) for row in rows]


def suspect(connection: apsw.Connection, message_id: str) -> Suspect | None:
    row = first_row(
        connection,
        f"select {MESSAGE_COLUMNS}, q.reasons, q.state, q.at from quarantine q join messages m on m.seq = q.message"
        " where m.id = ?",
        (message_id,),
    )
    return _suspect(row) if row else None


def settle(connection: apsw.Connection, message: Message, state: str, now: int) -> None:
    """A released message is read by L1 again, with its turn, if L1 has passed it already."""
    connection.execute("update quarantine set state = ?, settled_at = ? where message = ?", (state, now, message.seq))
    if state == RELEASED:
        _read_again(connection, message, now)


def _read_again(connection: apsw.Connection, message: Message, now: int) -> None:
    key = (message.scope, message.session_key)
    cursor = first_value(connection, "select l1_cursor from sessions where scope = ? and session_key = ?", key)
    if cursor is not None and message.seq <= int(cursor):
        bounds = first_row(
            connection,
            "select min(seq), max(seq) from messages where scope = ? and session_key = ? and turn_id = ?",
            (*key, message.turn_id),
        ) or (message.seq, message.seq)
        connection.execute(
            "insert into parked(kind, scope, session_key, from_seq, to_seq, reason, detail, parked_at, reopened)"
            " values ('l1', ?, ?, ?, ?, 'released: from the quarantine', '', ?, 1)",
            (*key, *bounds, now),
        )
    jobs.request_job(connection, JobKind.L1, *key, now, expedite=False)


def _suspect(row: Sequence[object]) -> Suspect:
    *message, reasons, state, at = row
    return Suspect(message_of(tuple(message)), tuple(str(reasons).split()), str(state), int(str(at)))
