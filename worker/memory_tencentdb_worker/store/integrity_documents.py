"""Scenes and personas: whether each revision is the one that was written, and whether each line in use rests on
something that can be shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apsw

from memory_tencentdb_worker.models import JobKind, Line, Persona, SceneChange, Section
from memory_tencentdb_worker.store import documents, jobs
from memory_tencentdb_worker.store.audit import record_change
from memory_tencentdb_worker.store.connection import select
from memory_tencentdb_worker.store.integrity_rows import SUPPORTED, Fault, offer_proof
from memory_tencentdb_worker.store.rows import read_sections, write_sections
from memory_tencentdb_worker.store.sessions import count_change
from memory_tencentdb_worker.text.ids import text_hash

ACTION = "doctor"
PERSONA = "persona"


@dataclass(frozen=True)
class _Revision:
    """One row, as far as it can be read. `sections` is () where it cannot."""

    table: str
    seq: int
    scope: str
    name: str
    revision: int
    in_use: bool
    summary: str
    sections: tuple[Section, ...]
    intact: bool

    @property
    def where(self) -> str:
        return f"{self.name} revision {self.revision}"


def look_at_documents(connection: apsw.Connection) -> list[Fault]:
    offer_proof(connection)
    found: dict[str, list[str]] = {"scene_newest": _wrong_newest(connection)}
    for scope in _scopes(connection):
        revisions = _revisions(connection, scope)
        support = _Support(connection, scope, revisions)
        for one in revisions:
            if not one.intact:
                found.setdefault("revision_altered", []).append(one.where)
            for line in _lines(one.sections) if one.in_use else ():
                if not support.holds(line):
                    found.setdefault("line_unsupported", []).append(
                        f"{one.name}: {', '.join(line.sources) or 'no source'}"
                    )
                elif support.is_stale(line):
                    found.setdefault("line_stale", []).append(f"{one.name}: {', '.join(line.sources)}")
    return [Fault(code, tuple(where)) for code, where in found.items() if where]


def repair_documents(connection: apsw.Connection, moved: Mapping[str, str], now: int) -> None:
    """`moved`: ids of atoms that gave way to a twin, with the twin's. Altered revisions are cut down to what can be
    shown; lines without a source leave the newest ones. Audited, and the layers above are asked to look again."""
    offer_proof(connection)
    _set_newest(connection)
    for scope in _scopes(connection):
        revisions = _revisions(connection, scope)
        altered = [one for one in revisions if not one.intact]
        if altered:
            proven = _Proven(connection, scope, revisions)
            support = _Support(connection, scope, revisions)
            for one in altered:
                _cut_down(connection, one, support, proven, now)
            revisions = _revisions(connection, scope)
        changed = bool(altered)
        support = _Support(connection, scope, revisions)
        for one in revisions:
            if one.in_use:
                changed |= _drop_lines(connection, one, support, moved, now)
        if changed:
            count_change(connection, scope, "scene_changes")
            count_change(connection, scope, "persona_changes")
            connection.execute(
                "update scope_state set persona_request = ? where scope = ? and persona_request = ''", (ACTION, scope)
            )
            jobs.request_job(connection, JobKind.L3, scope, "", now, expedite=False)


class _Support:
    """Which of the sources named in some revisions can be shown."""

    def __init__(self, connection: apsw.Connection, scope: str, revisions: Iterable[_Revision]) -> None:
        in_use = [one for one in revisions if one.in_use or one.table == "scene_revisions" or not one.intact]
        named = sorted({source for one in in_use for line in _lines(one.sections) for source in line.sources})
        bound = {"named": json.dumps(named), "scope": scope}
        atoms = select(
            connection,
            "select a.id, a.superseded_at is null from atoms a where a.scope = :scope"
            f" and a.id in (select value from json_each(:named)) and {SUPPORTED}",
            bound,
        )
        messages = select(
            connection,
            "select id from messages where scope = :scope and id in (select value from json_each(:named))"
            " and hash = text_hash(text)",
            bound,
        )
        self._ended = {str(row[0]) for row in atoms if not row[1]}
        self._known = {str(row[0]) for row in [*atoms, *messages]}
        scenes = [one for one in in_use if one.table == "scene_revisions"]
        self._scenes = {one.name for one in scenes if any(self.holds(line) for line in _lines(one.sections))}
        self._known |= self._scenes

    def holds(self, line: Line) -> bool:
        return any(source in self._known for source in line.sources)

    def is_stale(self, line: Line) -> bool:
        """It rests on nothing but facts that hold no more."""
        return all(source in self._ended for source in line.sources)


class _Proven:
    """Lines that stand in a revision nobody has altered, or in the words of a fact they rest on."""

    def __init__(self, connection: apsw.Connection, scope: str, revisions: Iterable[_Revision]) -> None:
        self._written = {(one.name, line.text) for one in revisions if one.intact for line in _lines(one.sections)}
        rows = select(connection, f"select id, content from atoms a where a.scope = ? and {SUPPORTED}", (scope,))
        self._contents = {str(id): str(content) for id, content in rows}

    def says(self, name: str, line: Line) -> bool:
        return (name, line.text) in self._written or any(
            self._contents.get(source) == line.text for source in line.sources
        )


def _cut_down(connection: apsw.Connection, one: _Revision, support: _Support, proven: _Proven, now: int) -> None:
    sections = _kept(one.sections, lambda line: support.holds(line) and proven.says(one.name, line))
    text = write_sections(sections)
    digest = _digest(one.table, one.summary, text)
    connection.execute(f"update {one.table} set sections = ?, hash = ? where seq = ?", (text, digest, one.seq))
    before = text_hash(write_sections(one.sections))
    record_change(connection, now, one.scope, f"{ACTION}-revision", one.where, before, text_hash(text))


def _drop_lines(
    connection: apsw.Connection, one: _Revision, support: _Support, moved: Mapping[str, str], now: int
) -> bool:
    """A further revision without them; False when nothing had to go."""
    sections = _kept(one.sections, support.holds)
    sections = tuple(replace(part, lines=tuple(dict.fromkeys(_moved(line, moved) for line in part.lines)))
                     for part in sections)  # fmt: skip
    if sections == one.sections:
        return False
    if one.table == "persona_revisions":
        documents.write_persona(connection, one.scope, Persona(one.scope, 0, sections, now, ACTION))
    else:
        scene = documents.newest_scene_named(connection, one.scope, one.name)
        assert scene is not None
        op = "update" if sections else "archive"
        changed = replace(scene, sections=sections, updated_at=now)
        documents.write_scene(connection, one.scope, SceneChange(op, changed, reason=ACTION))
    digests = text_hash(write_sections(one.sections)), text_hash(write_sections(sections))
    record_change(connection, now, one.scope, f"{ACTION}-lines", one.name, *digests)
    return True


def _moved(line: Line, moved: Mapping[str, str]) -> Line:
    return replace(line, sources=tuple(dict.fromkeys(moved.get(source, source) for source in line.sources)))


def _kept(sections: Sequence[Section], keep: Any) -> tuple[Section, ...]:
    parts = [replace(part, lines=tuple(line for line in part.lines if keep(line))) for part in sections]
    return tuple(part for part in parts if part.lines)


def _revisions(connection: apsw.Connection, scope: str) -> list[_Revision]:
    scenes = select(
        connection,
        "select seq, name, revision, newest = 1 and status = 'active', summary, sections, hash from scene_revisions"
        " where scope = ? order by seq",
        (scope,),
    )
    personas = select(
        connection,
        "select seq, 'persona', revision, revision = (select max(revision) from persona_revisions n"
        "  where n.scope = p.scope), '', sections, hash from persona_revisions p where scope = ? order by seq",
        (scope,),
    )
    return [
        _revision(table, scope, row)
        for table, rows in (("scene_revisions", scenes), ("persona_revisions", personas))
        for row in rows
    ]


def _revision(table: str, scope: str, row: tuple[Any, ...]) -> _Revision:
    seq, name, revision, in_use, summary, text, digest = row
    try:
        sections = read_sections(text)
    except (ValueError, TypeError):
        return _Revision(table, seq, scope, name, revision, bool(in_use), summary, (), False)
    intact = digest == _digest(table, summary, text)
    return _Revision(table, seq, scope, name, revision, bool(in_use), summary, sections, intact)


def _digest(table: str, summary: str, sections: str) -> str:
    return text_hash(f"{summary}\n{sections}" if table == "scene_revisions" else sections)


_WRONG_NEWEST = (
    "select scope, name from scene_revisions group by scope, name"
    " having sum(newest) <> 1 or max(case when newest = 1 then revision end) <> max(revision)"
)


def _wrong_newest(connection: apsw.Connection) -> list[str]:
    return [str(row[1]) for row in select(connection, _WRONG_NEWEST)]


def _set_newest(connection: apsw.Connection) -> None:
    for scope, name in select(connection, _WRONG_NEWEST):
        connection.execute(
            "update scene_revisions set newest = revision = (select max(revision) from scene_revisions n"
            " where n.scope = :scope and n.name = :name) where scope = :scope and name = :name",
            {"scope": scope, "name": name},
        )
        count_change(connection, scope, "scene_changes")


def _scopes(connection: apsw.Connection) -> list[str]:
    rows = select(connection, "select scope from scene_revisions union select scope from persona_revisions order by 1")
    return [str(row[0]) for row in rows]


def _lines(sections: Iterable[Section]) -> list[Line]:
    return [line for section in sections for line in section.lines]
