"""Rows as values of the domain, and back. The column lists stand next to the functions that read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import TypeVar

import apsw

from memory_tencentdb_worker.errors import StoreCorrupt
from memory_tencentdb_worker.models import (
    Atom,
    AtomType,
    JobKind,
    Line,
    Message,
    Origin,
    Parked,
    Persona,
    Role,
    Scene,
    Section,
    Source,
)
from memory_tencentdb_worker.store.connection import Row, select

_Word = TypeVar("_Word", bound=Enum)

MESSAGE_COLUMNS = (
    "m.seq, m.id, m.scope, m.turn_id, m.session_key, m.session_id, m.role, m.origin, m.text, m.hash, m.sent_at, "
    "m.recorded_at"
)

ATOM_COLUMNS = (
    "a.seq, a.id, a.scope, a.type, a.content, a.priority, a.scene_name, a.origin, a.extractor, a.session_key, "
    "a.session_id, a.activity_start, a.activity_end, a.valid_from, a.valid_to, a.recorded_from, a.superseded_at, "
    "a.superseded_by"
)

KNOWN_THEN = (
    "a.said_at <= :as_of and a.valid_from <= :as_of and (a.superseded_at is null"
    " or coalesce(a.end_said_at, a.valid_to) > :as_of or a.valid_to > :as_of)"
)
"""Of atoms: said by then and valid then, and not ended by anything said by then."""

SCENE_COLUMNS = (
    "s.scope, s.name, s.revision, s.summary, s.sections, s.heat, s.created_at, s.updated_at, s.status, s.merged_into"
)

PERSONA_COLUMNS = "p.scope, p.revision, p.sections, p.created_at, p.reason"

PARKED_COLUMNS = "id, kind, scope, session_key, from_seq, to_seq, reason, detail, parked_at"


def message_of(row: Row) -> Message:
    values = [*row[:6], _known(Role, row[6]), _known(Origin, row[7]), *row[8:12]]
    return Message(*values)


def atoms_of(connection: apsw.Connection, rows: Iterable[Row], as_of: int | None = None) -> list[Atom]:
    """Atoms with their sources, in the order of the rows; with `as_of` as they were known then."""
    found = [row[:18] for row in rows]
    sources = _sources(connection, [row[0] for row in found], as_of)
    atoms = [_atom_of(row, tuple(sources.get(row[0], ()))) for row in found]
    if as_of is None:
        return atoms
    return [replace(atom, valid_to=None, superseded_at=None, superseded_by=None) for atom in atoms]


def scene_of(row: Row) -> Scene:
    values = [*row[:4], read_sections(row[4]), *row[5:10]]
    return Scene(*values)


def persona_of(row: Row) -> Persona:
    return Persona(row[0], row[1], read_sections(row[2]), row[3], row[4])


def parked_of(row: Row) -> Parked:
    values = [row[0], _known(JobKind, row[1]), *row[2:9]]
    return Parked(*values)


def write_sections(sections: Iterable[Section]) -> str:
    """JSON that is the same for the same sections, so that it can be hashed."""
    content = [[each.heading, [[line.text, list(line.sources)] for line in each.lines]] for each in sections]
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def read_sections(text: str) -> tuple[Section, ...]:
    return tuple(
        Section(heading, tuple(Line(line, tuple(sources)) for line, sources in lines))
        for heading, lines in json.loads(text)
    )


def _known(kind: type[_Word], value: object) -> _Word:
    """Only known words were ever written: another one is damage."""
    try:
        return kind(value)
    except ValueError as error:
        raise StoreCorrupt(f"the store holds an unknown {kind.__name__}: {value!r:.40}") from error


def _atom_of(row: Row, sources: tuple[Source, ...]) -> Atom:
    values = [*row[:3], _known(AtomType, row[3]), *row[4:7], _known(Origin, row[7]), *row[8:18], sources]
    return Atom(*values)


def _sources(connection: apsw.Connection, atoms: Sequence[int], said_by: int | None) -> dict[int, list[Source]]:
    sources: dict[int, list[Source]] = {}
    if not atoms:
        return sources
    for atom, message_id, message_hash in select(
        connection,
        "select s.atom, m.id, s.hash from atom_sources s join messages m on m.seq = s.message"
        " where s.atom in (select value from json_each(:atoms)) and (:said_by is null or m.sent_at <= :said_by)"
        " order by s.atom, s.message",
        {"atoms": json.dumps(atoms), "said_by": said_by},
    ):
        sources.setdefault(atom, []).append(Source(message_id, message_hash))
    return sources
