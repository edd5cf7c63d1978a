"""What became of one turn: when it came, what has read it, what was learnt from it, and the model calls about it."""

from __future__ import annotations

import json
from dataclasses import dataclass

import apsw

from memory_tencentdb_worker.models import Atom, JobKind, Layer, Message, ModelCall
from memory_tencentdb_worker.store.connection import Row, first_row, first_value, select
from memory_tencentdb_worker.store.rows import ATOM_COLUMNS, MESSAGE_COLUMNS, atoms_of, message_of

DONE, WAITING, RUNNING, PARKED, NOTHING = "done", "waiting", "running", "parked", "nothing to do"


@dataclass(frozen=True)
class Step:
    """How far a layer has come with the turn. `due_at` and `error` are of its job, while it waits."""

    layer: Layer
    state: str
    due_at: int | None = None
    attempts: int = 0
    error: str = ""


@dataclass(frozen=True)
class TurnRecord:
    scope: str
    turn_id: str
    session_key: str
    session_id: str
    captured_at: int
    recorded_at: int
    source: str
    messages: tuple[Message, ...]
    atoms: tuple[Atom, ...]  # those that rest on it, superseded ones too
    steps: tuple[Step, ...]
    calls: tuple[ModelCall, ...]  # about its messages, its atoms, and the newest persona


def turn_records(connection: apsw.Connection, scope: str | None, turn_id: str) -> list[TurnRecord]:
    """Of several ones where sessions, or users when `scope` is None, share the id."""
    rows = select(
        connection,
        "select scope, turn_id, session_key, session_id, captured_at, recorded_at, source from turns"
        " where turn_id = :turn_id and (:scope is null or scope = :scope) order by last_seq",
        {"turn_id": turn_id, "scope": scope},
    )
    return [_record(connection, row) for row in rows]


def _calls(
    connection: apsw.Connection, scope: str, session_key: str, messages: list[Message], atoms: list[Atom]
) -> list[ModelCall]:
    persona = first_value(connection, "select max(revision) from persona_revisions where scope = ?", (scope,))
    spans = {
        Layer.L1: [message.seq for message in messages],
        Layer.L2: [atom.seq for atom in atoms if atom.session_key == session_key],
        Layer.L3: [] if persona is None else [int(persona)],
    }
    return [
        call
        for layer, span in spans.items()
        if span
        for call in _calls_about(connection, scope, layer, session_key, min(span), max(span))
    ]


def _calls_about(
    connection: apsw.Connection, scope: str, layer: Layer, session_key: str, first: int, last: int
) -> list[ModelCall]:
    """Calls of this layer about some of these rows, the oldest first."""
    of_session = {
        Layer.L1: "exists (select 1 from messages m where m.seq = about_from and m.session_key = :session_key)",
        Layer.L2: "exists (select 1 from atoms a where a.seq = about_from and a.session_key = :session_key)",
    }.get(layer, "true")
    rows = select(
        connection,
        "select at, task, scope, model, tokens_in, tokens_out, cost_usd, elapsed_ms, outcome, error, texts, estimated,"
        " generation, about_from, about_to from calls where scope = :scope and task like :task"
        f" and about_from <= :last and about_to >= :first and {of_session} order by id",
        {"scope": scope, "task": f"{layer.lower()}-%", "session_key": session_key, "first": first, "last": last},
    )
    return [_call_of(row) for row in rows]


def _call_of(row: Row) -> ModelCall:
    values = [*row[:11], bool(row[11]), row[12], (row[13], row[14])]
    return ModelCall(*values)


def _record(connection: apsw.Connection, row: Row) -> TurnRecord:
    scope, turn_id, session_key = row[:3]
    messages = [
        message_of(each)
        for each in select(
            connection,
            f"select {MESSAGE_COLUMNS} from messages m where m.scope = ? and m.session_key = ? and m.turn_id = ?"
            " order by m.position",
            (scope, session_key, turn_id),
        )
    ]
    atoms = atoms_of(
        connection,
        select(
            connection,
            f"select {ATOM_COLUMNS} from atoms a where a.seq in (select x.atom from atom_sources x where x.message in"
            " (select value from json_each(?))) order by a.seq",
            (json.dumps([message.seq for message in messages]),),
        ),
    )
    steps = (
        _l1_step(connection, scope, session_key, messages),
        _l2_step(connection, scope, session_key, atoms),
        _l3_step(connection, scope),
    )
    calls = _calls(connection, scope, session_key, messages, atoms)
    values = [*row, tuple(messages), tuple(atoms), steps, tuple(calls)]
    return TurnRecord(*values)


def _l1_step(connection: apsw.Connection, scope: str, session_key: str, messages: list[Message]) -> Step:
    if not messages:
        return Step(Layer.L1, NOTHING)
    last = messages[-1].seq
    parked = first_row(
        connection,
        "select reason from parked where kind = 'l1' and scope = ? and session_key = ? and resolved_at is null"
        " and ? between from_seq and to_seq",
        (scope, session_key, last),
    )
    if parked:
        return Step(Layer.L1, PARKED, error=str(parked[0]))
    cursor = _cursor(connection, "l1_cursor", scope, session_key)
    return Step(Layer.L1, DONE) if last <= cursor else _open_step(connection, Layer.L1, JobKind.L1, scope, session_key)


def _l2_step(connection: apsw.Connection, scope: str, session_key: str, atoms: list[Atom]) -> Step:
    live = [atom.seq for atom in atoms if atom.live and atom.session_key == session_key]
    if not live:
        return Step(Layer.L2, NOTHING)
    if live[-1] <= _cursor(connection, "l2_cursor", scope, session_key):
        return Step(Layer.L2, DONE)
    return _open_step(connection, Layer.L2, JobKind.L2, scope, session_key)


def _l3_step(connection: apsw.Connection, scope: str) -> Step:
    changed = first_value(
        connection,
        "select 1 from scene_revisions where scope = :scope and newest = 1 and status = 'active' and seq > coalesce("
        " (select persona_scene_mark from scope_state where scope = :scope), 0) limit 1",
        {"scope": scope},
    )
    return _open_step(connection, Layer.L3, JobKind.L3, scope, "") if changed else Step(Layer.L3, DONE)


def _open_step(connection: apsw.Connection, layer: Layer, kind: JobKind, scope: str, session_key: str) -> Step:
    job = first_row(
        connection,
        "select due_at, attempts, last_error, leased_until, parked_mark from jobs where kind = ? and scope = ?"
        " and session_key = ?",
        (kind, scope, session_key),
    )
    if job is None:
        return Step(layer, WAITING)
    state = RUNNING if job[3] is not None else PARKED if job[4] is not None and job[0] is None else WAITING
    return Step(layer, state, job[0], job[1], job[2] or "")


def _cursor(connection: apsw.Connection, column: str, scope: str, session_key: str) -> int:
    value = first_value(
        connection, f"select {column} from sessions where scope = ? and session_key = ?", (scope, session_key)
    )
    return int(value or 0)
