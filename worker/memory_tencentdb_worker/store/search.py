"""Search by words. Filters are part of the SQL, so that a limit never starves a scope or session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import AtomHit, Filter, MessageHit
from memory_tencentdb_worker.store.connection import first_value, select
from memory_tencentdb_worker.store.message_keys import PLACE_BITS
from memory_tencentdb_worker.store.rows import ATOM_COLUMNS, KNOWN_THEN, atoms_of
from memory_tencentdb_worker.store.search_memory import SearchMemory
from memory_tencentdb_worker.store.search_terms import SearchTerm, known_terms
from memory_tencentdb_worker.text.segment import fold
from memory_tencentdb_worker.text.speakers import speaker_of

HIT_LIMIT = 1_000
SPEAKER_THREADS = 300

ROW_BUDGET = 4_000
"""Atoms that the terms of one query may match in all, the rarest terms first: each costs one to two microseconds."""

KEPT_TERMS = 3
"""However frequent they are."""

COMMON_SHARE = 0.3
COMMON_FROM_ROWS = 200
"""A word in so many of the atoms is left out while a rarer one is asked for too: it costs most and decides nothing."""


def search_messages(
    connection: apsw.Connection, memory: SearchMemory, terms: Sequence[str], filter: Filter, limit: int
) -> list[MessageHit]:
    try:
        from memory_tencentdb_worker.store.search_windows import ranked_messages  # numpy: 0.1 s, at the first question
    except ImportError as error:
        raise StoreError(f"messages cannot be searched: {error}", code="search_unavailable") from error
    return ranked_messages(connection, memory, terms, filter, min(limit, HIT_LIMIT))


def search_atoms(
    connection: apsw.Connection, memory: SearchMemory, terms: Sequence[str], filter: Filter, limit: int
) -> list[AtomHit]:
    known = _affordable_terms(connection, memory, terms) if limit > 0 else []
    if not known:
        return []
    condition, values = atom_filter(filter)
    rows = select(
        connection,
        f"select {ATOM_COLUMNS}, -bm25(atoms_fts) as score from atoms_fts f join atoms a on a.seq = f.rowid"
        f" where atoms_fts match :expression and {condition} order by score desc, a.seq desc limit :limit",
        {**values, "expression": " OR ".join(term.match for term in known), "limit": min(limit, HIT_LIMIT)},
    )
    atoms = atoms_of(connection, rows, filter.as_of)
    return [AtomHit(atom, float(row[-1])) for atom, row in zip(atoms, rows, strict=True)]


def _affordable_terms(connection: apsw.Connection, memory: SearchMemory, terms: Sequence[str]) -> list[SearchTerm]:
    held = [term for term in known_terms(connection, memory.counts, terms) if term.atom_rows]
    total = int(first_value(connection, "select max(seq) from atoms") or 0)
    most = max(COMMON_FROM_ROWS, COMMON_SHARE * total)
    chosen: list[SearchTerm] = []
    spent = 0
    for term in sorted(held, key=lambda term: term.atom_rows):
        spent += term.atom_rows
        if (spent > ROW_BUDGET and len(chosen) >= KEPT_TERMS) or (chosen and term.atom_rows > most):
            break
        chosen.append(term)
    return chosen


def speakers(connection: apsw.Connection, filter: Filter) -> frozenset[str]:
    """Of the newest threads: the names their first two messages begin with."""
    condition = "scope = :scope" + ("" if filter.session_key is None else " and session_key = :session_key")
    rows = select(
        connection,
        f"select substr(m.text, 1, 80) from (select id from threads where {condition} order by id desc"
        f" limit {SPEAKER_THREADS}) t join message_places p"
        f" on p.place in ((t.id << {PLACE_BITS}) + 1, (t.id << {PLACE_BITS}) + 2) join messages m on m.seq = p.seq",
        {"scope": filter.scope, "session_key": filter.session_key},
    )
    return frozenset(name for (beginning,) in rows if (name := speaker_of(beginning)))


_IN_SCENE = (  # what the lines of the scene with this name rest on, whatever theme the atoms were given
    "select line.value from scene_revisions s, json_tree(s.sections) line"
    " where s.scope = :scope and s.newest = 1 and s.status = 'active' and line.type = 'text'"
    " and (s.name = :scene_name or lower(s.name) = lower(:scene_name))"
)


def message_filter(filter: Filter) -> tuple[str, dict[str, Any]]:
    conditions = ["m.scope = :scope"]
    if filter.session_key is not None:
        conditions.append("m.session_key = :session_key")
    if filter.before_seq is not None:
        conditions.append("m.seq < :before_seq")
    if filter.after_seq is not None:
        conditions.append("m.seq > :after_seq")
    if filter.as_of is not None:
        conditions.append("m.sent_at <= :as_of")
    return " and ".join(conditions), _values(filter)


def atom_filter(filter: Filter) -> tuple[str, dict[str, Any]]:
    conditions = ["a.scope = :scope"]
    if filter.as_of is not None:
        conditions.append(KNOWN_THEN)
    elif not filter.superseded:
        conditions.append("a.superseded_at is null")
    if filter.session_key is not None:
        conditions.append("a.session_key = :session_key")
    if filter.type is not None:
        conditions.append("a.type = :type")
    if filter.scene is not None:
        conditions.append(f"(instr(a.scene_folded, :scene) > 0 or a.id in ({_IN_SCENE}))")
    return " and ".join(conditions), _values(filter)


def _values(filter: Filter) -> dict[str, Any]:
    return {
        "scope": filter.scope,
        "session_key": filter.session_key,
        "type": filter.type,
        "scene": None if filter.scene is None else fold(filter.scene),
        "scene_name": None if filter.scene is None else filter.scene.removesuffix(".md"),
        "before_seq": filter.before_seq,
        "after_seq": filter.after_seq,
        "as_of": filter.as_of,
    }
