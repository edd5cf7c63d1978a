"""L2 and L3: scenes and the persona as revisions. Nothing is overwritten; the newest revision counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import apsw

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import Lease, Line, Persona, Revision, Scene, SceneChange, Section
from memory_tencentdb_worker.store.audit import record_change
from memory_tencentdb_worker.store.connection import first_row, first_value, select
from memory_tencentdb_worker.store.rows import (
    PERSONA_COLUMNS,
    SCENE_COLUMNS,
    persona_of,
    read_sections,
    scene_of,
    write_sections,
)
from memory_tencentdb_worker.store.sessions import count_change
from memory_tencentdb_worker.text.ids import text_hash


def active_scenes(connection: apsw.Connection, scope: str, *, changed_only: bool = False) -> list[Scene]:
    """The hottest first, then by name."""
    rows = select(
        connection,
        f"select {SCENE_COLUMNS} from scene_revisions s where s.scope = :scope and s.newest = 1 and s.status = 'active'"
        " and (not :changed_only or s.seq > coalesce("
        "  (select persona_scene_mark from scope_state where scope = :scope), 0)) order by s.heat desc, s.name",
        {"scope": scope, "changed_only": int(changed_only)},
    )
    return [scene_of(row) for row in rows]


def newest_persona(connection: apsw.Connection, scope: str) -> Persona | None:
    row = first_row(
        connection,
        f"select {PERSONA_COLUMNS} from persona_revisions p where p.scope = ? order by p.revision desc limit 1",
        (scope,),
    )
    return persona_of(row) if row else None


def documents_at(connection: apsw.Connection, scope: str, as_of: int) -> tuple[Persona | None, list[Scene]]:
    """The persona and the active scenes as they had been written by then."""
    persona = first_row(
        connection,
        f"select {PERSONA_COLUMNS} from persona_revisions p where p.scope = ? and p.created_at <= ?"
        " order by p.revision desc limit 1",
        (scope, as_of),
    )
    scenes = select(
        connection,
        f"select {SCENE_COLUMNS} from scene_revisions s where s.scope = :scope and s.status = 'active'"
        " and s.seq = (select max(n.seq) from scene_revisions n where n.scope = s.scope and n.name = s.name"
        "  and n.updated_at <= :as_of) order by s.heat desc, s.name",
        {"scope": scope, "as_of": as_of},
    )
    return (persona_of(persona) if persona else None), [scene_of(row) for row in scenes]


def write_scenes(
    connection: apsw.Connection, lease: Lease, to_atom_seq: int, changes: Sequence[SceneChange], request: str, now: int
) -> None:
    """Revisions, the session's L2 cursor and the scope's counters of one L2 run."""
    begun_at = int(first_value(connection, "select scene_mark from jobs where id = ?", (lease.job_id,)))
    for change in changes:
        _refuse_stale(connection, lease.scope, (change.scene.name, *change.absorbed), begun_at)
        check_sources(connection, lease.scope, change.scene.sections)
        write_scene(connection, lease.scope, change)
    connection.execute(
        "update sessions set l2_cursor = max(l2_cursor, ?), last_l2_at = ? where scope = ? and session_key = ?",
        (to_atom_seq, now, lease.scope, lease.session_key),
    )
    if changes:
        count_change(connection, lease.scope, "scene_changes")
    connection.execute(
        "update scope_state set scenes_processed = scenes_processed + ?,"
        " persona_request = case when ? = '' then persona_request else ? end where scope = ?",
        (int(bool(changes)), request, request, lease.scope),
    )


def write_scene(connection: apsw.Connection, scope: str, change: SceneChange) -> None:
    """The next revision of the scene, and the last one of every scene that it absorbed."""
    scene = change.scene
    status = "archived" if change.op == "archive" else scene.status
    _add_revision(connection, scope, scene, status, scene.merged_into, change)
    for name in change.absorbed:
        old = newest_scene_named(connection, scope, name)
        if old is None or name == scene.name:
            raise StoreError(f"scene {scene.name} cannot absorb {name!r}", code="unknown_scene")
        _add_revision(connection, scope, replace(old, updated_at=scene.updated_at), "merged", scene.name, change)


def write_persona_run(connection: apsw.Connection, lease: Lease, persona: Persona | None) -> None:
    """A revision if there is a new text; what the run has read counts as digested either way."""
    atom_mark, scene_mark, newest, read = first_row(
        connection,
        "select atom_mark, scene_mark, (select max(seq) from persona_revisions where scope = ?),"
        " persona_mark from jobs where id = ?",
        (lease.scope, lease.job_id),
    ) or (0, 0, None, 0)
    if persona is not None:
        if (newest or 0) != read:
            raise StoreError("the persona was changed while a new one was written: try again", code="stale")
        check_sources(connection, lease.scope, persona.sections)
        write_persona(connection, lease.scope, persona)
    connection.execute(
        "insert into scope_state(scope, persona_atom_mark, persona_scene_mark) values (?, ?, ?)"
        " on conflict(scope) do update set persona_atom_mark = excluded.persona_atom_mark,"
        " persona_scene_mark = excluded.persona_scene_mark, persona_request = ''",
        (lease.scope, atom_mark, scene_mark),
    )


def write_persona(connection: apsw.Connection, scope: str, persona: Persona) -> None:
    sections = write_sections(persona.sections)
    connection.execute(
        "insert into persona_revisions(scope, revision, sections, hash, created_at, reason) values (?,"
        " coalesce((select max(revision) from persona_revisions where scope = ?), 0) + 1, ?, ?, ?, ?)",
        (scope, scope, sections, text_hash(sections), persona.created_at, persona.reason),
    )
    count_change(connection, scope, "persona_changes")


def write_edits(
    connection: apsw.Connection,
    scope: str,
    scenes: Sequence[SceneChange],
    persona: Persona | None,
    evidence: tuple[str, ...],
    now: int,
    action: str,
) -> None:
    """A person's own text; `action` names it in the audit. Sources that do not exist are left out; a line without any
    rests on the evidence."""
    for change in scenes:
        before = newest_scene_named(connection, scope, change.scene.name)
        sections = _settle(connection, scope, change.scene.sections, evidence)
        write_scene(connection, scope, _with_sections(change, sections))
        done = "remove-scene" if change.op == "archive" else f"{action}-scene"
        record_change(connection, now, scope, done, change.scene.name, _digest(before), _digest(change.scene))
    if scenes:
        count_change(connection, scope, "scene_changes")
    if persona is not None:
        old = newest_persona(connection, scope)
        sections = _settle(connection, scope, persona.sections, evidence)
        write_persona(connection, scope, Persona(scope, 0, sections, persona.created_at, persona.reason))
        record_change(connection, now, scope, f"{action}-persona", "persona", _digest(old), _digest(persona))


def newest_scene_named(connection: apsw.Connection, scope: str | None, name: str) -> Scene | None:
    """Archived ones too: a revision of any status."""
    row = first_row(
        connection,
        f"select {SCENE_COLUMNS} from scene_revisions s where (:scope is null or s.scope = :scope) and s.name = :name"
        " and s.newest = 1 order by s.status = 'active' desc, s.seq desc limit 1",
        {"scope": scope, "name": name},
    )
    return scene_of(row) if row else None


def scene_revisions(connection: apsw.Connection, scope: str, name: str) -> list[Revision]:
    """The newest first."""
    rows = select(
        connection,
        "select name, revision, updated_at, op, reason, sections, summary, heat, status, created_at"
        " from scene_revisions where scope = ? and name = ? order by revision desc",
        (scope, name),
    )
    versions = []
    for row in rows:
        values = [*row[:5], read_sections(row[5]), *row[6:]]
        versions.append(Revision(*values))
    return versions


def persona_revisions(connection: apsw.Connection, scope: str) -> list[Revision]:
    rows = select(
        connection,
        "select revision, created_at, reason, sections from persona_revisions where scope = ? order by revision desc",
        (scope,),
    )
    return [Revision("persona", row[0], row[1], "write", row[2], read_sections(row[3])) for row in rows]


def check_sources(connection: apsw.Connection, scope: str, sections: Sequence[Section]) -> None:
    """Raises StoreError when a line names an atom, message or scene that this scope does not have."""
    named = sorted({source for section in sections for line in section.lines for source in line.sources})
    unknown = [source for source in named if source not in _known_sources(connection, scope, named)]
    if unknown:
        raise StoreError(f"unknown sources: {', '.join(unknown[:5])}", code="unknown_source")


def _known_sources(connection: apsw.Connection, scope: str, named: Sequence[str]) -> set[str]:
    rows = select(
        connection,
        "select value from json_each(:named) where exists (select 1 from atoms where id = value and scope = :scope)"
        " or exists (select 1 from messages where id = value and scope = :scope)"
        " or exists (select 1 from scene_revisions where name = value and scope = :scope)",
        {"named": json.dumps(list(named)), "scope": scope},
    )
    return {str(row[0]) for row in rows}


def _settle(
    connection: apsw.Connection, scope: str, sections: Sequence[Section], evidence: tuple[str, ...]
) -> tuple[Section, ...]:
    known = _known_sources(connection, scope, [s for each in sections for line in each.lines for s in line.sources])

    def settled(line: Line) -> Line:
        return Line(line.text, tuple(source for source in line.sources if source in known) or evidence)

    return _map_lines(sections, settled)


def _map_lines(sections: Sequence[Section], change: Callable[[Line], Line]) -> tuple[Section, ...]:
    return tuple(Section(each.heading, tuple(change(line) for line in each.lines)) for each in sections)


def _with_sections(change: SceneChange, sections: tuple[Section, ...]) -> SceneChange:
    return replace(change, scene=replace(change.scene, sections=sections))


def _refuse_stale(connection: apsw.Connection, scope: str, names: Sequence[str], begun_at: int) -> None:
    """A person's edit that came while the model was at work is never overwritten."""
    for name in names:
        newest = first_value(
            connection,
            "select seq from scene_revisions where scope = ? and name = ? and newest = 1"
            " and op in ('edit', 'rollback')",
            (scope, name),
        )
        if newest is not None and int(newest) > begun_at:
            raise StoreError(f"scene {name} was edited while it was being rewritten: try again", code="stale")


def _add_revision(
    connection: apsw.Connection, scope: str, scene: Scene, status: str, merged_into: str | None, change: SceneChange
) -> None:
    sections = write_sections(scene.sections)
    old = first_row(
        connection,
        "update scene_revisions set newest = 0 where scope = ? and name = ? and newest = 1 returning revision",
        (scope, scene.name),
    )
    connection.execute(
        "insert into scene_revisions(scope, name, revision, newest, status, merged_into, summary, sections, hash, heat,"
        " created_at, updated_at, op, reason) values (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            scope,
            scene.name,
            1 if old is None else old[0] + 1,
            status,
            merged_into,
            scene.summary,
            sections,
            text_hash(scene.summary + "\n" + sections),
            scene.heat,
            scene.created_at,
            scene.updated_at,
            change.op,
            change.reason,
        ),
    )


def _digest(document: Scene | Persona | None) -> str | None:
    return None if document is None else text_hash(write_sections(document.sections))
