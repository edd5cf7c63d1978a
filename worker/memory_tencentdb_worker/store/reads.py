"""Reads that change nothing: by id, by time, page by page, and counts."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from typing import Any

import apsw

from memory_tencentdb_worker.models import Atom, AtomType, Counts, Layer, Message, Page, Rows
from memory_tencentdb_worker.store.connection import first_row, first_value, select
from memory_tencentdb_worker.store.rows import (
    ATOM_COLUMNS,
    KNOWN_THEN,
    MESSAGE_COLUMNS,
    PERSONA_COLUMNS,
    SCENE_COLUMNS,
    atoms_of,
    message_of,
    persona_of,
    scene_of,
)


def messages_by_id(connection: apsw.Connection, ids: Sequence[str], scope: str | None = None) -> list[Message]:
    """In `seq` order; unknown ids are left out."""
    rows = select(
        connection,
        f"select {MESSAGE_COLUMNS} from messages m where m.id in (select value from json_each(:ids))"
        " and (:scope is null or m.scope = :scope) order by m.seq",
        {"ids": json.dumps(list(ids)), "scope": scope},
    )
    return [message_of(row) for row in rows]


def atoms_by_id(connection: apsw.Connection, ids: Sequence[str], scope: str | None = None) -> list[Atom]:
    """In `seq` order, superseded ones too; unknown ids are left out."""
    rows = select(
        connection,
        f"select {ATOM_COLUMNS} from atoms a where a.id in (select value from json_each(:ids))"
        " and (:scope is null or a.scope = :scope) order by a.seq",
        {"ids": json.dumps(list(ids)), "scope": scope},
    )
    return atoms_of(connection, rows)


def messages_between(connection: apsw.Connection, scope: str, since: int, until: int) -> list[Message]:
    rows = select(
        connection,
        f"select {MESSAGE_COLUMNS} from messages m where m.scope = ? and m.recorded_at >= ? and m.recorded_at < ?"
        " order by m.seq",
        (scope, since, until),
    )
    return [message_of(row) for row in rows]


def messages_after(connection: apsw.Connection, scope: str, seq: int, since: int) -> list[Message]:
    rows = select(
        connection,
        f"select {MESSAGE_COLUMNS} from messages m where m.scope = ? and m.seq > ? and m.recorded_at >= ?"
        " order by m.seq",
        (scope, seq, since),
    )
    return [message_of(row) for row in rows]


def message_seqs(connection: apsw.Connection, scope: str, since: int, until: int) -> array[int]:
    rows = connection.execute(
        "select seq from messages indexed by messages_by_recorded where scope = ? and recorded_at >= ?"
        " and recorded_at < ? order by seq",
        (scope, since, until),
    )
    return array("q", (int(row[0]) for row in rows))


def atom_marks(connection: apsw.Connection, scope: str) -> list[tuple[int, int]]:
    rows = connection.execute(
        "select a.recorded_from, a.seq, a.content, a.type, a.priority, a.scene_name, a.activity_start, a.activity_end,"
        " a.superseded_at, a.superseded_by,"
        " (select group_concat(x.message) from atom_sources x where x.atom = a.seq)"
        " from atoms a where a.scope = ? order by a.seq",
        (scope,),
    )
    return [(int(row[0]), hash(row)) for row in rows]


def atoms_between(
    connection: apsw.Connection, scope: str, since: int, until: int, after_seq: int, limit: int
) -> list[Atom]:
    rows = select(
        connection,
        f"select {ATOM_COLUMNS} from atoms a where a.scope = ? and a.recorded_from >= ? and a.recorded_from < ?"
        " and a.seq > ? order by a.seq limit ?",
        (scope, since, until, after_seq, limit),
    )
    return atoms_of(connection, rows)


def standing_instructions(connection: apsw.Connection, scope: str, as_of: int | None = None) -> list[Atom]:
    if as_of is not None:
        known = atoms_known_at(connection, scope, as_of, type=AtomType.INSTRUCTION)
        return [atom for atom in known if atom.priority == -1]
    rows = select(
        connection,
        f"select {ATOM_COLUMNS} from atoms a indexed by atoms_standing where a.scope = ? and a.superseded_at is null"
        " and a.type = 'instruction' and a.priority = -1 order by a.seq",
        (scope,),
    )
    return atoms_of(connection, rows)


def atoms_known_at(
    connection: apsw.Connection, scope: str, as_of: int, *, type: AtomType | None = None, limit: int = -1
) -> list[Atom]:
    """The newest first when there is a limit; returned in the order in which they were said."""
    rows = select(
        connection,
        f"select {ATOM_COLUMNS} from atoms a where a.scope = :scope and {KNOWN_THEN}"
        " and (:type is null or a.type = :type) order by a.said_at desc, a.seq desc limit :limit",
        {"scope": scope, "as_of": as_of, "type": type, "limit": limit},
    )
    return atoms_of(connection, reversed(rows), as_of)


def all_scopes(connection: apsw.Connection) -> list[str]:
    return [str(row[0]) for row in connection.execute("select scope from scope_state order by scope")]


def projection_hashes(connection: apsw.Connection, scope: str) -> dict[str, str]:
    rows = select(connection, "select filename, hash from projections where scope = ?", (scope,))
    return {str(filename): str(digest) for filename, digest in rows}


def set_projection_hash(connection: apsw.Connection, scope: str, filename: str, digest: str | None) -> None:
    if digest is None:
        connection.execute("delete from projections where scope = ? and filename = ?", (scope, filename))
        return
    connection.execute(
        "insert or replace into projections(scope, filename, hash) values (?, ?, ?)", (scope, filename, digest)
    )


def count_all(connection: apsw.Connection, scope: str | None, space: int | None) -> Counts:
    def count(source: str) -> int:
        condition = "" if scope is None else " and scope = :scope"
        return int(first_value(connection, f"select count(*) from {source}{condition}", {"scope": scope}))

    return Counts(
        turns=count("turns where true"),
        messages=count("messages where true"),
        atoms=count("atoms where superseded_at is null"),
        superseded=count("atoms where superseded_at is not null"),
        scenes=count("scene_revisions where newest = 1 and status = 'active'"),
        personas=count("(select distinct scope from persona_revisions) where true"),
        vectors=_count_vectors(connection, scope, space),
    )


def list_messages(
    connection: apsw.Connection, page: Page, scope: str | None, session_key: str | None, role: str | None
) -> Rows:
    """By the time at which they were said."""
    conditions, values = _window("m.sent_at", page)
    _add(conditions, values, {"m.scope": scope, "m.session_key": session_key, "m.role": role})
    source = f"messages m where {' and '.join(conditions)}"
    order = f"m.sent_at {_direction(page)}, m.seq {_direction(page)}"
    rows = [message_of(row) for row in _cut(connection, MESSAGE_COLUMNS, source, order, page, values)]
    return Rows(tuple(rows), _total(connection, source, values))


def list_atoms(
    connection: apsw.Connection,
    page: Page,
    scope: str | None,
    session_key: str | None,
    type: str | None,
    priority_at_least: int | None,
    as_of: int | None = None,
) -> Rows:
    """Live ones, or those known at an instant, by the time at which they were recorded."""
    conditions, values = _window("a.recorded_from", page)
    conditions.append("a.superseded_at is null" if as_of is None else KNOWN_THEN)
    values["as_of"] = as_of
    _add(conditions, values, {"a.scope": scope, "a.session_key": session_key, "a.type": type})
    if priority_at_least is not None:
        conditions.append("a.priority >= :priority")
        values["priority"] = priority_at_least
    source = f"atoms a where {' and '.join(conditions)}"
    order = f"a.recorded_from {_direction(page)}, a.seq {_direction(page)}"
    rows = _cut(connection, ATOM_COLUMNS, source, order, page, values)
    return Rows(tuple(atoms_of(connection, rows, as_of)), _total(connection, source, values))


def list_documents(connection: apsw.Connection, layer: Layer, page: Page, scope: str | None) -> Rows:
    """L2: active scenes by their last change; L3: the newest persona of each scope."""
    if layer is Layer.L2:
        conditions, values = _window("s.updated_at", page)
        conditions.append("s.newest = 1 and s.status = 'active'")
        _add(conditions, values, {"s.scope": scope})
        source = f"scene_revisions s where {' and '.join(conditions)}"
        found = _cut(connection, SCENE_COLUMNS, source, f"s.updated_at {_direction(page)}, s.name", page, values)
        return Rows(tuple(scene_of(row) for row in found), _total(connection, source, values))
    conditions, values = _window("p.created_at", page)
    conditions.append("p.revision = (select max(revision) from persona_revisions n where n.scope = p.scope)")
    _add(conditions, values, {"p.scope": scope})
    source = f"persona_revisions p where {' and '.join(conditions)}"
    found = _cut(connection, PERSONA_COLUMNS, source, f"p.created_at {_direction(page)}, p.scope", page, values)
    return Rows(tuple(persona_of(row) for row in found), _total(connection, source, values))


def _count_vectors(connection: apsw.Connection, scope: str | None, space: int | None) -> int:
    if space is None:
        return 0
    if scope is None:
        sql = "select count(*) from embeddings where space = :space and refused = 0"
    else:
        sql = (
            "select (select count(*) from embeddings e join messages m on m.seq = e.seq"
            "  where e.space = :space and e.layer = 'L0' and e.refused = 0 and m.scope = :scope)"
            " + (select count(*) from embeddings e join atoms a on a.seq = e.seq"
            "  where e.space = :space and e.layer = 'L1' and e.refused = 0 and a.scope = :scope)"
        )
    return int(first_value(connection, sql, {"space": space, "scope": scope}))


def _window(column: str, page: Page) -> tuple[list[str], dict[str, Any]]:
    """[since, until) of the page."""
    conditions = ["true"]
    if page.since is not None:
        conditions.append(f"{column} >= :since")
    if page.until is not None:
        conditions.append(f"{column} < :until")
    return conditions, {"since": page.since, "until": page.until}


def _add(conditions: list[str], values: dict[str, Any], equal: dict[str, str | None]) -> None:
    for column, value in equal.items():
        if value is not None:
            name = column.partition(".")[2]
            conditions.append(f"{column} = :{name}")
            values[name] = value


def _cut(
    connection: apsw.Connection, columns: str, source: str, order: str, page: Page, values: dict[str, Any]
) -> list[tuple[Any, ...]]:
    return select(
        connection,
        f"select {columns} from {source} order by {order} limit :limit offset :offset",
        {**values, "limit": max(page.limit, 0), "offset": max(page.offset, 0)},
    )


def _total(connection: apsw.Connection, source: str, values: dict[str, Any]) -> int:
    row = first_row(connection, f"select count(*) from {source}", values)
    return int(row[0]) if row else 0


def _direction(page: Page) -> str:
    return "asc" if page.ascending else "desc"
