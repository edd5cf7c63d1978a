"""The shadow: a store of its own in which L1 to L3 are made again from a copy of L0, by the ordinary pipeline.

It begins with what no extraction can make: memories that a person or the host's own memory put there, and the lines
that a person wrote into scenes and persona.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import apsw

from memory_tencentdb_worker.models import Line, Origin, Persona, Scene, SceneChange, Section
from memory_tencentdb_worker.store.connection import Row, first_value, select
from memory_tencentdb_worker.store.documents import active_scenes, newest_persona, write_persona, write_scene
from memory_tencentdb_worker.store.generation_rows import (
    HAND_MADE,
    HAND_ONLY_SESSION,
    IN_SCOPE,
    columns,
    insert_rows,
)
from memory_tencentdb_worker.store.sessions import count_change
from memory_tencentdb_worker.text.segment import index_text

OWNER_EDIT = str(Origin.OWNER_EDIT)

SEQ_GAP = 1 << 32
"""New rows of a shadow are numbered from here behind those in use, so that no number means two things after a change
from one to the other, whatever is written to either meanwhile."""

_NUMBERED = ("atoms", "scene_revisions", "persona_revisions")

HAND_CHAIN = (
    f"with recursive chain(id) as (select a.id from atoms a where {HAND_MADE} and (:scope is null or a.scope = :scope)"
    " union select a.id from atoms a join chain c on a.superseded_by = c.id) "
)
"""Hand-made atoms and what they replaced: so that an extraction that finds the replaced one again finds it replaced."""


def fill_shadow(live: apsw.Connection, shadow: apsw.Connection, scope: str | None) -> None:
    """Once, into an empty store."""
    copy_turns(live, shadow, scope, only_read=False)
    shadow.execute(f"update sessions as s set l1_cursor = last_seq where {HAND_ONLY_SESSION}")
    copy_hand_made(live, shadow, scope)
    insert_rows(
        shadow, "tombstones", "scope, kind, mark, at", select(live, "select scope, kind, mark, at from tombstones")
    )
    for table in _NUMBERED:
        number = int(first_value(live, "select seq from sqlite_sequence where name = ?", (table,)) or 0)
        shadow.execute("delete from sqlite_sequence where name = ?", (table,))
        shadow.execute("insert into sqlite_sequence(name, seq) values (?, ?)", (table, number + SEQ_GAP))
    for name in _scopes(live, scope):
        count_change(shadow, name, "atom_changes")
        add_lines(shadow, name, read_lines(live, name))


def copy_turns(live: apsw.Connection, shadow: apsw.Connection, scope: str | None, *, only_read: bool) -> int:
    """What the shadow lacks of L0; `only_read`: of what L1 has read already. Returns the number of messages."""
    bound = {"scope": scope}
    names = columns(live, "messages")
    known: dict[tuple[str, str], int] = {
        (row[0], row[1]): row[2]
        for row in shadow.execute("select scope, session_key, max(seq) from messages group by scope, session_key")
    }
    copied = 0
    for owner, session_key, session_id, last_seq, cursor, active_at in select(
        live,
        "select scope, session_key, session_id, last_seq, l1_cursor, last_active_at from sessions"
        f" where last_seq > 0 and {IN_SCOPE} order by scope, session_key",
        bound,
    ):
        after, until = known.get((owner, session_key), 0), min(cursor, last_seq) if only_read else last_seq
        if until <= after:
            continue
        _copy_session_turns(live, shadow, owner, session_key, after, until)
        rows = select(
            live,
            f"select {', '.join(names)} from messages where scope = ? and session_key = ? and seq > ? and seq <= ?",
            (owner, session_key, after, until),
        )
        insert_rows(shadow, "messages", ", ".join(names), rows)
        _copy_quarantine(live, shadow, (owner, session_key, after, until))
        copied += len(rows)
        shadow.execute(
            "insert into sessions(scope, session_key, session_id, last_seq, last_active_at) values (?, ?, ?, ?, ?)"
            " on conflict(scope, session_key) do update set last_seq = excluded.last_seq,"
            " last_active_at = excluded.last_active_at",
            (owner, session_key, session_id, until, active_at),
        )
        count_change(shadow, owner, "message_changes")
    return copied


def lost_messages(live: apsw.Connection, shadow: apsw.Connection) -> bool:
    """Whether the shadow holds a message that is not (or no longer so) in the store."""
    return any(
        first_value(live, "select hash from messages where seq = ?", (seq,)) != digest
        for seq, digest in shadow.execute("select seq, hash from messages")
    )


def copy_hand_made(live: apsw.Connection, shadow: apsw.Connection, scope: str | None) -> None:
    """With their numbers; what they rest on is there."""
    names = ", ".join(columns(live, "atoms"))
    rows = select(live, f"{HAND_CHAIN} select {names} from atoms where id in (select id from chain)", {"scope": scope})
    insert_rows(shadow, "atoms", names, rows)
    add_terms(shadow, rows, names, {})
    sources = select(
        live,
        f"{HAND_CHAIN} select x.atom, x.message, x.hash from atoms a join atom_sources x on x.atom = a.seq"
        " where a.id in (select id from chain)",
        {"scope": scope},
    )
    insert_rows(shadow, "atom_sources", "atom, message, hash", sources)
    shadow.execute(
        "update sessions as s set last_atom_seq = coalesce((select max(seq) from atoms a where a.scope = s.scope"
        " and a.session_key = s.session_key), 0)"
    )


@dataclass(frozen=True)
class HandLines:
    """What a person wrote into the scenes and the persona of one scope."""

    scenes: tuple[tuple[Scene, list[Section]], ...]
    persona: tuple[Persona, list[Section]] | None


def read_lines(live: apsw.Connection, scope: str) -> HandLines:
    scenes = tuple((scene, _lines_of_hand(live, scene.sections)) for scene in active_scenes(live, scope))
    persona = newest_persona(live, scope)
    return HandLines(scenes, None if persona is None else (persona, _lines_of_hand(live, persona.sections)))


def add_lines(target: apsw.Connection, scope: str, hand: HandLines) -> None:
    """Those that the target's scene or persona lacks, put at its end."""
    there = {scene.name: scene for scene in active_scenes(target, scope)}
    for scene, lines in hand.scenes:
        present = there.get(scene.name)
        merged = _added(present.sections if present else (), lines)
        if merged is not None:
            change = SceneChange("edit", _whole(scene, present, merged), reason="written by hand")
            write_scene(target, scope, change)
            count_change(target, scope, "scene_changes")
    if hand.persona is not None:
        persona, lines = hand.persona
        current = newest_persona(target, scope)
        merged = _added(current.sections if current else (), lines)
        if merged is not None:
            write_persona(target, scope, Persona(scope, 0, merged, persona.created_at, "edit"))


def add_terms(target: apsw.Connection, rows: Iterable[Row], names: str, known: Mapping[str, str]) -> None:
    """Index rows for atoms that were copied as they are. `known` holds index texts made before, by content."""
    places = [name.strip() for name in names.split(",")]
    seq, content = places.index("seq"), places.index("content")
    terms = ((row[seq], known.get(row[content]) or index_text(row[content])) for row in rows)
    target.executemany("insert into atoms_fts(rowid, text) values (?, ?)", terms)


def index_terms(source: apsw.Connection, scope: str | None) -> dict[str, str]:
    """To be made before a transaction that others wait for."""
    rows = select(source, f"select distinct content from atoms where {IN_SCOPE}", {"scope": scope})
    return {str(row[0]): index_text(str(row[0])) for row in rows}


def _copy_session_turns(
    live: apsw.Connection, shadow: apsw.Connection, scope: str, session_key: str, after: int, until: int
) -> None:
    names = columns(live, "turns")
    marks = ", ".join("?" * len(names))
    rows = select(
        live,
        f"select {', '.join(names)} from turns where scope = ? and session_key = ? and (turn_id) in (select turn_id"
        " from messages where scope = ? and session_key = ? and seq > ? and seq <= ?)",
        (scope, session_key, scope, session_key, after, until),
    )
    shadow.executemany(
        f"insert into turns({', '.join(names)}) values ({marks})"
        " on conflict do update set last_seq = excluded.last_seq",
        rows,
    )


def _copy_quarantine(live: apsw.Connection, shadow: apsw.Connection, of_session: tuple[str, str, int, int]) -> None:
    """What a person released is read in a replay too, what is held back is not."""
    names = columns(live, "quarantine")
    rows = select(
        live,
        f"select {', '.join(f'q.{name}' for name in names)} from quarantine q join messages m on m.seq = q.message"
        " where m.scope = ? and m.session_key = ? and m.seq > ? and m.seq <= ?",
        of_session,
    )
    insert_rows(shadow, "quarantine", ", ".join(names), rows)


def _lines_of_hand(live: apsw.Connection, sections: Iterable[Section]) -> list[Section]:
    named = [source for each in sections for line in each.lines for source in line.sources]
    of_hand = {
        str(row[0])
        for row in live.execute(
            "select id from messages where id in (select value from json_each(:named)) and origin = :hand"
            " union select id from atoms where id in (select value from json_each(:named)) and origin = :hand"
            " and superseded_at is null",
            {"named": json.dumps(named), "hand": OWNER_EDIT},
        )
    }
    kept = [
        Section(each.heading, tuple(line for line in each.lines if of_hand.intersection(line.sources)))
        for each in sections
    ]
    return [Section(each.heading, tuple(_resting(line, of_hand) for line in each.lines)) for each in kept if each.lines]


def _resting(line: Line, of_hand: set[str]) -> Line:
    return Line(line.text, tuple(source for source in line.sources if source in of_hand))


def _added(present: tuple[Section, ...], wanted: list[Section]) -> tuple[Section, ...] | None:
    """None: everything is there already."""
    texts = {line.text for each in present for line in each.lines}
    missing = [
        Section(each.heading, lines)
        for each in wanted
        if (lines := tuple(line for line in each.lines if line.text not in texts))
    ]
    return (*present, *missing) if missing else None


def _whole(scene: Scene, present: Scene | None, sections: tuple[Section, ...]) -> Scene:
    if present is not None:
        return replace(present, sections=sections)
    return replace(scene, sections=sections, summary=sections[0].lines[0].text)


def _scopes(connection: apsw.Connection, scope: str | None) -> list[str]:
    return [
        str(row[0]) for row in select(connection, f"select scope from scope_state where {IN_SCOPE}", {"scope": scope})
    ]
