"""L0: writing turns and reading what L1 has not read yet."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import apsw

from memory_tencentdb_worker.models import L1Batch, Message, NewMessage, NewTurn, TurnReceipt
from memory_tencentdb_worker.store import quarantine, rule_reads
from memory_tencentdb_worker.store.connection import first_row, first_value, select
from memory_tencentdb_worker.store.message_keys import write_key
from memory_tencentdb_worker.store.parking import reopened_batch
from memory_tencentdb_worker.store.rows import MESSAGE_COLUMNS, message_of
from memory_tencentdb_worker.store.sessions import count_change, touch_session
from memory_tencentdb_worker.store.vectors import enqueue
from memory_tencentdb_worker.text.ids import message_id, text_hash

_NEWEST = (1 << 63) - 1


def write_turn(
    connection: apsw.Connection, turn: NewTurn, terms: Sequence[str], space: int | None, now: int
) -> TurnReceipt:
    """Adds what the turn does not hold yet. `terms` is the index text of each message."""
    key = (turn.scope, turn.session_key, turn.turn_id)
    known = select(
        connection,
        "select id, role, hash, position from messages where scope = ? and session_key = ? and turn_id = ?"
        " order by position",
        key,
    )
    row = first_row(connection, "select session_id from turns where scope = ? and session_key = ? and turn_id = ?", key)
    session_id = str(row[0]) if row else turn.session_id
    fresh = _unknown(turn.messages, Counter((role, digest) for _, role, digest, _ in known))
    ids = [row[0] for row in known]
    if not fresh:
        return TurnReceipt(turn.turn_id, duplicate=bool(known), recorded=0, message_ids=tuple(ids))
    if not known:
        connection.execute(
            "insert into turns(scope, turn_id, session_key, session_id, captured_at, recorded_at, source, last_seq)"
            " values (?, ?, ?, ?, ?, ?, ?, 0)",
            (turn.scope, turn.turn_id, turn.session_key, session_id, turn.captured_at, now, turn.source),
        )
    seq = 0
    position = known[-1][3] + 1 if known else 0
    for index in fresh:
        message = turn.messages[index]
        ids.append(message_id(*key, position))
        seq = _write_message(connection, turn, message, (ids[-1], position, session_id), now)
        connection.execute("insert into messages_fts(rowid, text) values (?, ?)", (seq, terms[index]))
        _take_place(connection, seq, (turn.scope, turn.session_key, session_id), terms[index])
        write_key(connection, seq, message, terms[index])
        if message.suspicions:
            quarantine.hold(connection, seq, turn.scope, message.suspicions, now)
        enqueue(connection, space, "L0", seq)
        position += 1
    connection.execute("update turns set last_seq = ? where scope = ? and session_key = ? and turn_id = ?", (seq, *key))
    touch_session(connection, turn.scope, turn.session_key, session_id, now, last_seq=seq)
    count_change(connection, turn.scope, "message_changes")
    return TurnReceipt(turn.turn_id, duplicate=False, recorded=len(fresh), message_ids=tuple(ids))


def read_batch(
    connection: apsw.Connection,
    scope: str,
    session_key: str,
    *,
    max_messages: int,
    max_chars: int,
    background: int,
    reread: bool,
) -> L1Batch | None:
    """A re-opened parked batch, else the oldest unread turns, else, with `reread`, the oldest that only rules have
    read, else None."""
    row = first_row(
        connection,
        "select l1_cursor, last_scene_name, session_id from sessions where scope = ? and session_key = ?",
        (scope, session_key),
    )
    if row is None:
        return None
    cursor, previous_scene, session_id = row
    parked = reopened_batch(connection, scope, session_key)
    if parked:
        messages = _between(connection, scope, session_key, parked.from_seq, parked.to_seq)
    else:
        messages = _oldest_turns(connection, scope, session_key, (cursor + 1, _NEWEST), max_messages, max_chars)
    again = rule_reads.first_run(connection, scope, session_key) if reread and not messages else None
    if again:
        messages = _oldest_turns(connection, scope, session_key, again, max_messages, max_chars)
    if not messages:
        return None
    return L1Batch(
        scope=scope,
        session_key=session_key,
        session_id=messages[-1].session_id or session_id,
        background=tuple(_before(connection, scope, session_key, messages[0].seq, background)),
        messages=tuple(messages),
        previous_scene="" if again else previous_scene,
        parked_id=parked.id if parked else None,
        reread=again is not None,
    )


def newest_messages(connection: apsw.Connection, scope: str, session_key: str, limit: int) -> list[Message]:
    """The newest of a session, oldest first."""
    return _before(connection, scope, session_key, _NEWEST, limit)


def messages_of_turn(connection: apsw.Connection, scope: str, turn_id: str) -> list[Message]:
    rows = select(
        connection,
        f"select {MESSAGE_COLUMNS} from messages m where m.scope = ? and m.turn_id = ?"
        " order by m.session_key, m.position",
        (scope, turn_id),
    )
    return [message_of(row) for row in rows]


def unread_messages(
    connection: apsw.Connection, scope: str, limit: int, session_key: str | None = None
) -> list[Message]:
    """The newest messages after their session's cursor, or in a parked batch, newest first."""
    limit = max(limit, 0)
    bound = {"scope": scope, "session_key": session_key, "limit": limit}
    only = "" if session_key is None else " and s.session_key = :session_key"
    parked = select(
        connection,
        "select distinct m.seq from parked s join messages m on m.scope = s.scope and m.session_key = s.session_key"
        "  and m.seq between s.from_seq and s.to_seq"
        f" where s.kind = 'l1' and s.scope = :scope and s.resolved_at is null{only} order by 1 desc limit :limit",
        bound,
    )
    newest = {int(row[0]) for row in parked}
    sessions = select(
        connection,
        "select s.session_key, s.l1_cursor, s.last_seq from sessions s indexed by sessions_unread_newest"
        f" where s.scope = :scope and s.last_seq > s.l1_cursor{only} order by s.last_seq desc limit :limit",
        bound,
    )
    for name, cursor, last_seq in sessions:
        newest = set(sorted(newest, reverse=True)[:limit])
        if len(newest) >= limit and last_seq < min(newest):
            break  # neither this session nor those after it hold a newer one
        rows = select(
            connection,
            "select seq from messages where scope = ? and session_key = ? and seq > ? order by seq desc limit ?",
            (scope, name, cursor, limit),
        )
        newest.update(int(row[0]) for row in rows)
    return messages_by_seq(connection, sorted(newest, reverse=True)[:limit])


def messages_by_seq(connection: apsw.Connection, seqs: Sequence[int]) -> list[Message]:
    """In the order of the numbers; those that are gone are left out."""
    rows = select(
        connection,
        f"select {MESSAGE_COLUMNS} from json_each(?) j join messages m on m.seq = j.value order by j.key",
        (json.dumps(list(seqs)),),
    )
    return [message_of(row) for row in rows]


def last_recorded_at(connection: apsw.Connection) -> int:
    """When the newest message came; 0 without any."""
    return int(first_value(connection, "select recorded_at from messages order by seq desc limit 1") or 0)


def move_cursor(connection: apsw.Connection, batch: L1Batch, scene_name: str, *, runs: int) -> None:
    """Everything up to the batch's end is read. A batch that is read a second time lies behind the cursor, which never
    goes back."""
    connection.execute(
        "update sessions set l1_cursor = max(l1_cursor, ?), l1_runs = l1_runs + ?,"
        " last_scene_name = case when ? = '' then last_scene_name else ? end where scope = ? and session_key = ?",
        (batch.to_seq, runs, scene_name, scene_name, batch.scope, batch.session_key),
    )


def skip_turn(connection: apsw.Connection, turn: NewTurn) -> None:
    """Takes a turn out of L1's way if nothing before it waits in its session (the evidence of an owner's edit)."""
    connection.execute(
        "update sessions set l1_cursor = last_seq where scope = :scope and session_key = :session_key"
        " and not exists (select 1 from turns t where t.scope = sessions.scope"
        "  and t.session_key = sessions.session_key and t.last_seq > sessions.l1_cursor and t.turn_id <> :turn_id)",
        {"scope": turn.scope, "session_key": turn.session_key, "turn_id": turn.turn_id},
    )


def _unknown(messages: Sequence[NewMessage], known: Counter[tuple[str, str]]) -> list[int]:
    """Positions of the messages that the turn does not hold, each copy counted once."""
    fresh = []
    for index, message in enumerate(messages):
        key = (str(message.role), text_hash(message.text))
        if known[key] > 0:
            known[key] -= 1
        else:
            fresh.append(index)
    return fresh


def _write_message(
    connection: apsw.Connection, turn: NewTurn, message: NewMessage, place: tuple[str, int, str], now: int
) -> int:
    identity, position, session_id = place
    return int(
        first_value(
            connection,
            "insert into messages(id, scope, turn_id, position, session_key, session_id, role, origin, text, hash,"
            " sent_at, recorded_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) returning seq",
            (
                identity,
                turn.scope,
                turn.turn_id,
                position,
                turn.session_key,
                session_id,
                message.role,
                message.origin,
                message.text,
                text_hash(message.text),
                message.sent_at,
                now,
            ),
        )
    )


def _take_place(connection: apsw.Connection, seq: int, thread: tuple[str, str, str], terms: str) -> None:
    """Behind the newest message of its thread: search counts neighbours together."""
    thread_id, number = first_row(
        connection,
        "insert into threads(scope, session_key, session_id, messages) values (?, ?, ?, 1)"
        " on conflict do update set messages = messages + 1 returning id, messages",
        thread,
    ) or (0, 0)
    connection.execute(
        "insert into message_places(seq, place, terms) values (?, ? << 24 | ?, ?)",
        (seq, thread_id, number, 1 + terms.count(" ")),
    )


def _oldest_turns(
    connection: apsw.Connection,
    scope: str,
    session_key: str,
    bounds: tuple[int, int],
    max_messages: int,
    max_chars: int,
) -> list[Message]:
    """Turns in the order in which they came, until a further one would break a limit. A message that joined an
    older turn later counts as a turn of its own here, since the cursor only moves forward."""
    chosen: list[Message] = []
    turn: list[Message] = []
    chars = 0
    for row in connection.execute(
        f"select {MESSAGE_COLUMNS} from messages m where m.scope = ? and m.session_key = ?"
        " and m.seq between ? and ? order by m.seq",
        (scope, session_key, *bounds),
    ):
        message = message_of(row)
        if turn and turn[-1].turn_id != message.turn_id:
            chosen += turn
            turn = []
        turn.append(message)
        chars += len(message.text)
        if chosen and (len(chosen) + len(turn) > max_messages or chars > max_chars):
            return chosen
    return chosen + turn


def _between(connection: apsw.Connection, scope: str, session_key: str, from_seq: int, to_seq: int) -> list[Message]:
    rows = select(
        connection,
        f"select {MESSAGE_COLUMNS} from messages m where m.scope = ? and m.session_key = ?"
        " and m.seq between ? and ? order by m.seq",
        (scope, session_key, from_seq, to_seq),
    )
    return [message_of(row) for row in rows]


def _before(connection: apsw.Connection, scope: str, session_key: str, seq: int, limit: int) -> list[Message]:
    rows = select(
        connection,
        f"select {MESSAGE_COLUMNS} from messages m where m.scope = ? and m.session_key = ? and m.seq < ?"
        " order by m.seq desc limit ?",
        (scope, session_key, seq, max(limit, 0)),
    )
    return [message_of(row) for row in reversed(rows)]
