"""Scenes and the persona after a forgetting: lines that rested on it go, in every revision; the rest stays.

A model may have carried a word of a forgotten text into a heading, a summary or a name. Such a telling word is one that
stood in the forgotten texts and stands in nothing that is left.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import apsw

from memory_tencentdb_worker.models import Atom, Line, Persona, SceneChange, Section
from memory_tencentdb_worker.store import documents
from memory_tencentdb_worker.store.connection import first_value, select
from memory_tencentdb_worker.store.rows import ATOM_COLUMNS, atoms_of, read_sections, write_sections
from memory_tencentdb_worker.store.sessions import count_change
from memory_tencentdb_worker.text.ids import text_hash

SUMMARY_CHARS = 200
SHORTEST_PART = 4
_JOINTS = re.compile(r"[.@+_-]+")
_WORD = re.compile(r"[^\W_](?:[\w.@+-]{2,}\w)")


@dataclass(frozen=True)
class _Gone:
    ids: Collection[str]
    words: Collection[str]  # telling ones, lower case
    phrase: str  # what was asked for literally, or ""

    def in_text(self, text: str) -> bool:
        if self.phrase and self.phrase in text:
            return True
        return any(word in self.words for word in _words(text))


def clean_documents(
    connection: apsw.Connection, scope: str, ids: Collection[str], texts: Iterable[str], phrase: str, now: int
) -> int:
    """After the rows went. Returns how many lines went. Changed scenes and the persona get a new revision."""
    gone = _Gone(ids, _telling_words(connection, scope, texts), phrase)
    lines = _clean_persona(connection, scope, gone, now)
    names = [
        row[0] for row in select(connection, "select distinct name from scene_revisions where scope = ?", (scope,))
    ]
    for name in names:
        lines += _clean_scene(connection, scope, str(name), gone, now)
    _clean_scene_names_of_atoms(connection, scope, gone)
    if names:
        count_change(connection, scope, "scene_changes")
    return lines


def _clean_scene(connection: apsw.Connection, scope: str, name: str, gone: _Gone, now: int) -> int:
    before = documents.newest_scene_named(connection, scope, name)
    lost = 0
    for seq, sections, summary, newest, reason in select(
        connection,
        "select seq, sections, summary, newest, reason from scene_revisions where scope = ? and name = ?",
        (scope, name),
    ):
        old = read_sections(sections)
        new = _without(old, gone)
        if new == old and not gone.in_text(summary) and not gone.in_text(reason):
            continue
        lost += newest * (_count(old) - _count(new))
        text = write_sections(new)
        short = _summary(new)
        connection.execute(
            "update scene_revisions set sections = ?, summary = ?, hash = ?, reason = '' where seq = ?",
            (text, short, text_hash(short + "\n" + text), seq),
        )
    scene = documents.newest_scene_named(connection, scope, name)
    if scene is None or before is None:
        return lost
    sections = scene.sections
    if scene.status == "active" and lost:
        sections = _with_left_facts(connection, scope, before.sections, scene.sections, gone)
    if not sections:
        _drop_name(connection, scope, name)
        return lost
    named = gone.in_text(name)
    if lost and scene.status == "active":
        whole = replace(scene, sections=sections, summary=_summary(sections), updated_at=max(now, scene.updated_at))
        documents.write_scene(connection, scope, SceneChange("forget", whole))
    if named:
        _rename(connection, scope, name)
    return lost


def _clean_persona(connection: apsw.Connection, scope: str, gone: _Gone, now: int) -> int:
    newest = documents.newest_persona(connection, scope)
    lost = 0
    for seq, sections, reason in select(
        connection, "select seq, sections, reason from persona_revisions where scope = ?", (scope,)
    ):
        old = read_sections(sections)
        new = _without(old, gone)
        kept_reason = "" if gone.in_text(reason) else reason
        if new != old or kept_reason != reason:
            text = write_sections(new)
            connection.execute(
                "update persona_revisions set sections = ?, hash = ?, reason = ? where seq = ?",
                (text, text_hash(text), kept_reason, seq),
            )
    if newest is not None:
        left = _without(newest.sections, gone)
        lost = _count(newest.sections) - _count(left)
        if lost:
            documents.write_persona(connection, scope, Persona(scope, 0, left, now, "forget"))
    connection.execute("update scope_state set persona_request = 'forget' where scope = ?", (scope,))
    return lost


def _without(sections: tuple[Section, ...], gone: _Gone) -> tuple[Section, ...]:
    kept = []
    for section in sections:
        lines = tuple(
            line for line in section.lines if not gone.in_text(line.text) and not set(line.sources) & set(gone.ids)
        )
        if lines:
            kept.append(Section("" if gone.in_text(section.heading) else section.heading, lines))
    return tuple(kept)


def _with_left_facts(
    connection: apsw.Connection, scope: str, before: tuple[Section, ...], after: tuple[Section, ...], gone: _Gone
) -> tuple[Section, ...]:
    """A line that went rested on other facts too: those stand on lines of their own now, in their own words."""
    here = {source for section in after for line in section.lines for source in line.sources}
    missing = [
        source
        for section in before
        for line in section.lines
        for source in line.sources
        if source not in here and source not in gone.ids
    ]
    found = [atom for id in dict.fromkeys(missing) for atom in _live_atom(connection, scope, id)]
    lines = tuple(Line(atom.content, (atom.id,)) for atom in found if not gone.in_text(atom.content))
    if not lines:
        return after
    return (*after, Section("", lines)) if after else (Section("", lines),)


def _live_atom(connection: apsw.Connection, scope: str, id: str) -> list[Atom]:
    rows = select(
        connection,
        f"select {ATOM_COLUMNS} from atoms a where a.scope = ? and a.id = ? and a.superseded_at is null",
        (scope, id),
    )
    return atoms_of(connection, rows)


def _drop_name(connection: apsw.Connection, scope: str, name: str) -> None:
    connection.execute("delete from scene_revisions where scope = ? and name = ?", (scope, name))
    connection.execute(
        "update audit set target = 'forgotten' where scope = ? and target = ? and action like '%-scene'", (scope, name)
    )


def _rename(connection: apsw.Connection, scope: str, name: str) -> None:
    """The name itself tells. Lines of the persona that rest on the scene follow it."""
    new = f"scene-{secrets.token_hex(4)}"
    connection.execute("update scene_revisions set name = ? where scope = ? and name = ?", (new, scope, name))
    connection.execute(
        "update scene_revisions set merged_into = ? where scope = ? and merged_into = ?", (new, scope, name)
    )
    connection.execute(
        "update audit set target = ? where scope = ? and target = ? and action like '%-scene'", (new, scope, name)
    )
    for table, lead in (("persona_revisions", "''"), ("scene_revisions", "summary || char(10)")):
        for seq, sections, before in select(
            connection,
            f"select seq, sections, {lead} from {table} where scope = ? and instr(sections, ?) > 0",
            (scope, name),
        ):
            moved = write_sections(_moved(read_sections(sections), name, new))
            digest = text_hash(before + moved)
            connection.execute(f"update {table} set sections = ?, hash = ? where seq = ?", (moved, digest, seq))


def _moved(sections: tuple[Section, ...], name: str, new: str) -> tuple[Section, ...]:
    return tuple(
        Section(
            section.heading,
            tuple(
                Line(line.text, tuple(new if source == name else source for source in line.sources))
                for line in section.lines
            ),
        )
        for section in sections
    )


def _clean_scene_names_of_atoms(connection: apsw.Connection, scope: str, gone: _Gone) -> None:
    for (name,) in select(connection, "select distinct scene_name from atoms where scope = ?", (scope,)):
        if gone.in_text(name):
            connection.execute(
                "update atoms set scene_name = '', scene_folded = '' where scope = ? and scene_name = ?", (scope, name)
            )


def _telling_words(connection: apsw.Connection, scope: str, texts: Iterable[str]) -> set[str]:
    """Only words that a document holds are looked for in what is left: they are few."""
    forgotten = {word for text in texts for word in _words(text)}
    shown: set[str] = set()
    for table, columns in (
        ("scene_revisions", "name || ' ' || summary || ' ' || sections || ' ' || reason"),
        ("persona_revisions", "sections || ' ' || reason"),
        ("atoms", "scene_name"),
    ):
        for (text,) in select(connection, f"select {columns} from {table} where scope = ?", (scope,)):
            shown.update(word for word in _words(text) if word in forgotten)
    return {word for word in shown if not _is_left(connection, scope, word)}


def _is_left(connection: apsw.Connection, scope: str, word: str) -> bool:
    bound = {"scope": scope, "word": word}
    return any(
        first_value(connection, question, bound)
        for question in (
            "select 1 from messages where scope = :scope and instr(lower(text), :word) > 0 limit 1",
            "select 1 from atoms where scope = :scope and instr(lower(content), :word) > 0 limit 1",
        )
    )


def _words(text: str) -> list[str]:
    """With the parts of joined ones: a scene's name is made of words with hyphens."""
    whole = [word.lower() for word in _WORD.findall(text)]
    return [*whole, *(part for word in whole for part in _JOINTS.split(word) if len(part) >= SHORTEST_PART)]


def _summary(sections: tuple[Section, ...]) -> str:
    return next((line.text[:SUMMARY_CHARS] for section in sections for line in section.lines), "")


def _count(sections: tuple[Section, ...]) -> int:
    return sum(len(section.lines) for section in sections)
