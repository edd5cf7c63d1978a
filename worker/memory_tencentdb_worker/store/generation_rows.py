"""The rows that are made from L0 and can be made again: which they are, copying them, and a hash of what they say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import apsw

from memory_tencentdb_worker.store.connection import Row, select

DERIVED = (
    "atoms",
    "atom_sources",
    "scene_revisions",
    "persona_revisions",
    "parked",
    "rule_read",
    "sessions",
    "scope_state",
)

_OF_HAND = "('owner-edit', 'builtin-memory')"
"""Where a person, or the host's own memory, put a memory in: no extraction makes it again."""

HAND_MADE = f"(a.origin in {_OF_HAND} or (a.extractor <> 'rules' and a.extractor not like 'model:%'))"
HAND_ONLY_SESSION = (
    "not exists (select 1 from messages m where m.scope = s.scope and m.session_key = s.session_key"
    f" and m.origin not in {_OF_HAND})"
)
IN_SCOPE = "(:scope is null or scope = :scope)"

_CHUNK = 1_000


def columns(connection: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"pragma table_info({table})")]


def scoped(table: str) -> str:
    """The condition that holds for the rows of `:scope`, of all scopes when it is null."""
    if table == "atom_sources":
        return f"atom in (select seq from atoms where {IN_SCOPE})"
    return IN_SCOPE


def copy_table(source: apsw.Connection, target: apsw.Connection, table: str, scope: str | None) -> None:
    """All rows of the scope, as they are. Both must have the same columns."""
    names = ", ".join(columns(source, table))
    rows = source.execute(f"select {names} from {table} where {scoped(table)}", {"scope": scope})
    insert_rows(target, table, names, rows)


def insert_rows(target: apsw.Connection, table: str, names: str, rows: Iterable[Sequence[object]]) -> None:
    marks = ", ".join("?" * (names.count(",") + 1))
    for chunk in _chunks(iter(rows)):
        target.executemany(f"insert into {table}({names}) values ({marks})", chunk)


def content_hash(connection: apsw.Connection, scope: str | None) -> str:
    """SHA-256 over what a generation says: every atom with validity, sources and successor, the active scenes and the
    personas. Numbers of rows and times of the work are left out, so that the same conversation read the same way gives
    the same hash, however often the work was interrupted."""
    digest = hashlib.sha256()
    for row in _content(connection, scope):
        digest.update(json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode("ascii"))
        digest.update(b"\n")
    return digest.hexdigest()


def marks(connection: apsw.Connection, scope: str | None) -> list[Row]:
    """Grow with every change of a derived row."""
    return select(
        connection,
        f"select scope, atom_changes, scene_changes, persona_changes from scope_state where {IN_SCOPE} order by scope",
        {"scope": scope},
    )


def table_definitions(connection: apsw.Connection, tables: Sequence[str]) -> list[str]:
    """How the tables were made, for a file that holds only them."""
    wanted: Mapping[str, str] = {
        str(name): str(sql)
        for name, sql in connection.execute("select name, sql from sqlite_schema where type = 'table'")
    }
    return [wanted[table] for table in tables]


def _content(connection: apsw.Connection, scope: str | None) -> Iterator[Row]:
    bound = {"scope": scope}
    yield from connection.execute(
        "select scope, id, type, content, priority, scene_name, origin, extractor, session_key, activity_start,"
        " activity_end, valid_from, case when superseded_by is null then null else valid_to end,"
        f" superseded_at is not null, superseded_by from atoms where {IN_SCOPE} order by scope, id",
        bound,
    )
    yield from connection.execute(
        "select a.scope, a.id, x.message, x.hash from atoms a join atom_sources x on x.atom = a.seq"
        f" where {IN_SCOPE} order by a.scope, a.id, x.message",
        bound,
    )
    yield from connection.execute(
        "select scope, name, summary, sections, heat from scene_revisions"
        f" where newest = 1 and status = 'active' and {IN_SCOPE} order by scope, name",
        bound,
    )
    yield from connection.execute(
        "select scope, sections from persona_revisions p where revision ="
        f" (select max(revision) from persona_revisions n where n.scope = p.scope) and {IN_SCOPE} order by scope",
        bound,
    )


def _chunks(rows: Iterator[Sequence[object]]) -> Iterator[list[Sequence[object]]]:
    while chunk := list(islice(rows, _CHUNK)):
        yield chunk
