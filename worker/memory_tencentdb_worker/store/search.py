"""Search by words and by vectors. Filters are part of the SQL, so that a limit never starves a scope or session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from memory_tencentdb_worker.models import AtomHit, Filter, MessageHit
from memory_tencentdb_worker.store.connection import first_value, select
from memory_tencentdb_worker.store.rows import ATOM_COLUMNS, MESSAGE_COLUMNS, atoms_of, message_of
from memory_tencentdb_worker.store.vectors import NEIGHBOUR_LIMIT, pack_vector, space_width, vector_table
from memory_tencentdb_worker.text.segment import fold, match_terms, quote_term

HIT_LIMIT = 1_000

TERM_LIMIT = 32
"""Terms of one query that are scored; of a longer one the rarest."""

ROW_BUDGET = 20_000
"""Rows that the terms of one query may match in all: scoring costs about a microsecond each (packages.md 2a)."""

KEPT_TERMS = 3
"""However frequent they are."""


def search_messages(connection: apsw.Connection, terms: Sequence[str], filter: Filter, limit: int) -> list[MessageHit]:
    expression = _expression(connection, "messages", terms)
    if expression is None or limit <= 0:
        return []
    condition, values = _message_filter(filter)
    rows = select(
        connection,
        f"select {MESSAGE_COLUMNS}, -bm25(messages_fts) as score from messages_fts f join messages m on m.seq = f.rowid"
        f" where messages_fts match :expression and {condition} order by score desc, m.seq desc limit :limit",
        {**values, "expression": expression, "limit": min(limit, HIT_LIMIT)},
    )
    return [MessageHit(message_of(row), float(row[-1])) for row in rows]


def search_atoms(connection: apsw.Connection, terms: Sequence[str], filter: Filter, limit: int) -> list[AtomHit]:
    expression = _expression(connection, "atoms", terms)
    if expression is None or limit <= 0:
        return []
    condition, values = _atom_filter(filter)
    rows = select(
        connection,
        f"select {ATOM_COLUMNS}, -bm25(atoms_fts) as score from atoms_fts f join atoms a on a.seq = f.rowid"
        f" where atoms_fts match :expression and {condition} order by score desc, a.seq desc limit :limit",
        {**values, "expression": expression, "limit": min(limit, HIT_LIMIT)},
    )
    return [AtomHit(atom, float(row[-1])) for atom, row in zip(atoms_of(connection, rows), rows, strict=True)]


def nearest_messages(
    connection: apsw.Connection, space: int, vector: Sequence[float], filter: Filter, limit: int
) -> list[MessageHit]:
    if limit <= 0:
        return []
    condition, values = _message_filter(filter)
    only = f" and rowid in (select m.seq from messages m where {condition})" if _narrow(filter) else ""
    rows = select(
        connection,
        f"{_nearest(space, 'L0', only)} select {MESSAGE_COLUMNS}, 1.0 - n.distance as score from n"
        " join messages m on m.seq = n.rowid where n.distance is not null order by n.distance, m.seq desc",
        {**values, "vector": pack_vector(vector, space_width(connection, space)), "k": min(limit, NEIGHBOUR_LIMIT)},
    )
    return [MessageHit(message_of(row), float(row[-1])) for row in rows]


def nearest_atoms(
    connection: apsw.Connection, space: int, vector: Sequence[float], filter: Filter, limit: int
) -> list[AtomHit]:
    if limit <= 0:
        return []
    condition, values = _atom_filter(filter)
    only = f" and rowid in (select a.seq from atoms a where {condition})" if _narrow(filter) else ""
    rows = select(
        connection,
        f"{_nearest(space, 'L1', only)} select {ATOM_COLUMNS}, 1.0 - n.distance as score from n"
        " join atoms a on a.seq = n.rowid where n.distance is not null and a.superseded_at is null"
        " order by n.distance, a.seq desc",
        {**values, "vector": pack_vector(vector, space_width(connection, space)), "k": min(limit, NEIGHBOUR_LIMIT)},
    )
    return [AtomHit(atom, float(row[-1])) for atom, row in zip(atoms_of(connection, rows), rows, strict=True)]


def _nearest(space: int, layer: str, only: str) -> str:
    """Materialised, so that no condition of the outer query is pushed into the vector search, which refuses it."""
    return (
        f"with n as materialized (select rowid, distance from {vector_table(space, layer)}"
        f" where embedding match :vector and k = :k and scope = :scope{only})"
    )


def _expression(connection: apsw.Connection, table: str, terms: Sequence[str]) -> str | None:
    """The MATCH string over the terms that the budget allows, the rarest first; None when no row can match."""
    costs = {term: cost for term in terms if (cost := _cost(connection, table, term))}
    kept: set[str] = set()
    spent = 0
    for term in sorted(costs, key=lambda term: costs[term]):
        spent += costs[term]
        if len(kept) >= TERM_LIMIT or (spent > ROW_BUDGET and len(kept) >= KEPT_TERMS):
            break
        kept.add(term)
    return match_terms([term for term in costs if term in kept])


def _cost(connection: apsw.Connection, table: str, term: str) -> int:
    """Rows that hold the tokens of a term: a phrase of frequent words is as dear as all of them. 0: it is nowhere."""
    groups = _tokenizer(connection)(term.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False)
    tokens = [token for group in groups for token in group]
    if quote_term(term).endswith("*"):
        sql = f"select coalesce(sum(doc), 0) from {table}_terms where term >= :token and term < :token || char(1114111)"
    else:
        sql = f"select coalesce(sum(doc), 0) from {table}_terms where term = :token"
    counts = [int(first_value(connection, sql, {"token": token})) for token in tokens]
    return sum(counts) if all(counts) else 0


def _tokenizer(connection: apsw.Connection) -> Any:
    return connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])


def _narrow(filter: Filter) -> bool:
    """Whether the filter asks for more than the scope, by which the vectors are partitioned."""
    return any(
        value is not None
        for value in (filter.session_key, filter.type, filter.scene, filter.before_seq, filter.after_seq)
    )


def _message_filter(filter: Filter) -> tuple[str, dict[str, Any]]:
    conditions = ["m.scope = :scope"]
    if filter.session_key is not None:
        conditions.append("m.session_key = :session_key")
    if filter.before_seq is not None:
        conditions.append("m.seq < :before_seq")
    if filter.after_seq is not None:
        conditions.append("m.seq > :after_seq")
    return " and ".join(conditions), _values(filter)


def _atom_filter(filter: Filter) -> tuple[str, dict[str, Any]]:
    conditions = ["a.scope = :scope", "a.superseded_at is null"]
    if filter.session_key is not None:
        conditions.append("a.session_key = :session_key")
    if filter.type is not None:
        conditions.append("a.type = :type")
    if filter.scene is not None:
        conditions.append("instr(a.scene_folded, :scene) > 0")
    return " and ".join(conditions), _values(filter)


def _values(filter: Filter) -> dict[str, Any]:
    return {
        "scope": filter.scope,
        "session_key": filter.session_key,
        "type": filter.type,
        "scene": None if filter.scene is None else fold(filter.scene),
        "before_seq": filter.before_seq,
        "after_seq": filter.after_seq,
    }
