"""The nearest messages and atoms to a vector. The filter comes before the ranking, so that nobody is crowded out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import apsw
import numpy as np

from memory_tencentdb_worker.models import AtomHit, Filter, MessageHit
from memory_tencentdb_worker.store.connection import select
from memory_tencentdb_worker.store.rows import ATOM_COLUMNS, MESSAGE_COLUMNS, atoms_of, message_of
from memory_tencentdb_worker.store.search import atom_filter, message_filter
from memory_tencentdb_worker.store.vector_index import VectorIndex, unpack
from memory_tencentdb_worker.store.vectors import check_vector, vector_table

HIT_LIMIT = 1_000

FEWEST_COMPARED = 400
"""Rows compared exactly. With centred bits 300 of 100,000 hold 98 of 100 true neighbours (packages.md 2b)."""

COMPARED_PER_HIT = 4

_CHUNK_ROWS = 5_000

_SMALLEST_SPAN = 0.01

Scored = list[tuple[int, float]]


def nearest_messages(
    connection: apsw.Connection, index: VectorIndex, space: int, vector: Sequence[float], filter: Filter, limit: int
) -> list[MessageHit]:
    condition, values = message_filter(filter)
    only = f"select m.seq from messages m where {condition}"
    scored = _nearest(connection, index, space, "L0", vector, filter, (only, values), limit)
    found = {
        row[-1]: message_of(row)
        for row in select(
            connection,
            f"select {MESSAGE_COLUMNS}, m.seq from messages m where m.seq in (select value from json_each(?))",
            (_listed(seq for seq, _ in scored),),
        )
    }
    return [MessageHit(found[seq], score) for seq, score in scored if seq in found]


def nearest_atoms(
    connection: apsw.Connection, index: VectorIndex, space: int, vector: Sequence[float], filter: Filter, limit: int
) -> list[AtomHit]:
    condition, values = atom_filter(filter)
    only = f"select a.seq from atoms a where {condition}"
    scored = _nearest(connection, index, space, "L1", vector, filter, (only, values), limit)
    rows = select(
        connection,
        f"select {ATOM_COLUMNS}, a.seq from atoms a where a.superseded_at is null"
        " and a.seq in (select value from json_each(?))",
        (_listed(seq for seq, _ in scored),),
    )
    found = {row[-1]: atom for atom, row in zip(atoms_of(connection, rows), rows, strict=True)}
    return [AtomHit(found[seq], score) for seq, score in scored if seq in found]


def _nearest(
    connection: apsw.Connection,
    index: VectorIndex,
    space: int,
    layer: str,
    vector: Sequence[float],
    filter: Filter,
    only: tuple[str, dict[str, object]],
    limit: int,
) -> Scored:
    """(seq, score), best first, the newer of equals first. Rows that have gone since they were put into memory are
    taken out of it, and the search begins anew. The index is asked before the database is: see VectorIndex."""
    check_vector(vector, index.dimensions)
    most = min(limit, HIT_LIMIT)
    if most <= 0:
        return []
    table = vector_table(space, layer)

    def load() -> Iterator[list[tuple[int, bytes]]]:
        rows = connection.execute(f"select seq, vector from {table} where scope = ? order by seq desc", (filter.scope,))
        while chunk := list(islice(rows, _CHUNK_ROWS)):
            yield chunk

    def allowed() -> list[int]:
        return [seq for (seq,) in select(connection, *only)]

    compared = max(FEWEST_COMPARED, most * COMPARED_PER_HIT)
    while True:
        narrowed = allowed if _narrow(filter) else None
        candidates, usual = index.candidates(layer, filter.scope, vector, compared, load, narrowed)
        rows = select(
            connection,
            f"select seq, vector from {table} where seq in (select value from json_each(?))",
            (_listed(candidates),),
        )
        if len(rows) == len(candidates):
            return _ranked(rows, vector, usual)[:most]
        index.remove(layer, filter.scope, list(set(candidates) - {seq for seq, _ in rows}))


def _ranked(rows: Sequence[tuple[int, bytes]], vector: Sequence[float], usual: float) -> Scored:
    """A cosine counts from what is usual: in one model unrelated texts have 0.1, in another 0.8."""
    if not rows:
        return []
    asked = np.asarray(vector, dtype=np.float32)
    cosines = unpack([stored for _, stored in rows]) @ (asked / np.linalg.norm(asked))
    scores = (cosines - usual) / max(1.0 - usual, _SMALLEST_SPAN)
    scored = [(seq, float(score)) for (seq, _), score in zip(rows, scores, strict=True)]
    return sorted(scored, key=lambda one: (-one[1], -one[0]))


def _narrow(filter: Filter) -> bool:
    """Whether the filter asks for more than the scope."""
    return any(
        value is not None
        for value in (filter.session_key, filter.type, filter.scene, filter.before_seq, filter.after_seq)
    )


def _listed(seqs: Iterable[int]) -> str:
    return json.dumps(list(seqs))
