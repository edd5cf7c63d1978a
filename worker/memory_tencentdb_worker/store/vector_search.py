"""The nearest messages and atoms to a vector. The filter comes before the ranking, so that nobody is crowded out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import apsw
import numpy as np

from memory_tencentdb_worker.models import AtomHit, Filter, MessageHit
from memory_tencentdb_worker.store.connection import select
from memory_tencentdb_worker.store.preference import factors
from memory_tencentdb_worker.store.rows import ATOM_COLUMNS, MESSAGE_COLUMNS, atoms_of, message_of
from memory_tencentdb_worker.store.search import atom_filter, message_filter
from memory_tencentdb_worker.store.search_memory import SearchMemory
from memory_tencentdb_worker.store.search_windows import read_candidates
from memory_tencentdb_worker.store.vector_index import Floats, VectorIndex, unpack
from memory_tencentdb_worker.store.vectors import check_vector, vector_table

HIT_LIMIT = 1_000

FEWEST_COMPARED = 400
"""Rows compared exactly. With centred bits 300 of 100,000 hold 98 of 100 true neighbours (packages.md 2b)."""

COMPARED_PER_HIT = 4

_CHUNK_ROWS = 5_000

_SMALLEST_SPAN = 0.01

FEWEST_APPRAISED = 200
"""So many are looked at for who said it, when, and whether it tells, which counts as in keyword search."""

LIFTING = 50
"""So many of the nearest lend their score to the messages around them; with 200 nothing changed."""

NEIGHBOUR_SHARES = ((1, 0.5), (-1, 0.3), (2, 0.23), (-2, 0.17))
"""What a score adds to that of the message so many places later: the shape of the word windows. With e5-small recall@10
on LoCoMo's development half rose from 83.4 to 84.2, and MRR by .01 to .05 on MemoryBank; other shapes of the same sum
differ by 0.2."""


FACT_SHARE = 0.5
"""What the score of an atom adds to those of the messages it rests on: on LoCoMo's development half, with its facts as
atoms, 0.5 points of recall@5 and .004 of MRR; 0.3 to 1 differ by as much."""


@dataclass(frozen=True)
class _Nearest:
    table: str
    asked: Floats  # of length 1
    usual: float
    scores: dict[int, float]  # by seq, the best first, the newer of equals first


def nearest_messages(
    connection: apsw.Connection,
    index: VectorIndex,
    memory: SearchMemory,
    space: int,
    vector: Sequence[float],
    filter: Filter,
    limit: int,
    terms: Sequence[str] = (),
) -> list[MessageHit]:
    condition, values = message_filter(filter)
    only = f"select m.seq from messages m where {condition}"
    nearest = _nearest(connection, index, space, "L0", vector, filter, (only, values), limit)
    if not nearest.scores:
        return []
    facts = _fact_scores(connection, index, space, vector, filter) if _whole(filter) else {}
    scores, total = _with_others(connection, memory, nearest, facts, filter)
    first = sorted(total, key=lambda seq: -total[seq])[: max(FEWEST_APPRAISED, 2 * limit)]
    candidates = read_candidates(connection, np.array(first, dtype=np.int64))
    factor = dict(zip(candidates.seqs.tolist(), factors(terms, filter.prefer, candidates).tolist(), strict=True))
    lifted = {seq: total[seq] * factor[seq] for seq in factor}
    best = sorted(lifted, key=lambda seq: (-lifted[seq], -scores[seq], -seq))[: min(limit, HIT_LIMIT)]
    rows = select(
        connection,
        f"select {MESSAGE_COLUMNS}, m.seq from json_each(:best) j cross join messages m on m.seq = j.value"
        f" where {condition} order by j.key",
        {**values, "best": _listed(best)},
    )
    return [MessageHit(message_of(row), scores[row[-1]], lifted[row[-1]]) for row in rows]


def nearest_atoms(
    connection: apsw.Connection, index: VectorIndex, space: int, vector: Sequence[float], filter: Filter, limit: int
) -> list[AtomHit]:
    condition, values = atom_filter(filter)
    only = f"select a.seq from atoms a where {condition}"
    nearest = _nearest(connection, index, space, "L1", vector, filter, (only, values), limit)
    scored = list(nearest.scores.items())[: min(limit, HIT_LIMIT)]
    rows = select(
        connection,
        f"select {ATOM_COLUMNS}, a.seq from atoms a where a.superseded_at is null"
        " and a.seq in (select value from json_each(?))",
        (_listed(seq for seq, _ in scored),),
    )
    found = {row[-1]: atom for atom, row in zip(atoms_of(connection, rows, filter.as_of), rows, strict=True)}
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
) -> _Nearest:
    """Rows that have gone since they were put into memory are taken out of it, and the search begins anew. The index is
    asked before the database is: see VectorIndex."""
    check_vector(vector, index.dimensions)
    most = min(limit, HIT_LIMIT)
    asked = np.asarray(vector, dtype=np.float32)
    asked /= np.linalg.norm(asked)
    table = vector_table(space, layer)
    if most <= 0:
        return _Nearest(table, asked, 0.0, {})

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
            scores = _scores(rows, asked, usual)
            best = sorted(scores, key=lambda seq: (-scores[seq], -seq))
            return _Nearest(table, asked, usual, {seq: scores[seq] for seq in best})
        index.remove(layer, filter.scope, list(set(candidates) - {seq for seq, _ in rows}))


def _scores(rows: Sequence[tuple[int, bytes]], asked: Floats, usual: float) -> dict[int, float]:
    """A cosine counts from what is usual: in one model unrelated texts have 0.1, in another 0.8."""
    if not rows:
        return {}
    cosines = unpack([stored for _, stored in rows]) @ asked
    scores = (cosines - usual) / max(1.0 - usual, _SMALLEST_SPAN)
    return {seq: float(score) for (seq, _), score in zip(rows, scores, strict=True)}


def _fact_scores(
    connection: apsw.Connection, index: VectorIndex, space: int, vector: Sequence[float], filter: Filter
) -> dict[int, float]:
    """What the nearest atoms say for the messages they rest on."""
    known = Filter(filter.scope, session_key=filter.session_key)
    atoms = nearest_atoms(connection, index, space, vector, known, LIFTING)
    scores = {hit.atom.seq: max(hit.score, 0.0) for hit in atoms}
    rows = select(
        connection,
        "select s.message, s.atom from json_each(?) j cross join atom_sources s on s.atom = j.value",
        (_listed(scores),),
    )
    best: dict[int, float] = {}
    for message, atom in rows:
        best[message] = max(best.get(message, 0.0), scores[atom])
    return best


def _with_others(
    connection: apsw.Connection,
    memory: SearchMemory,
    nearest: _Nearest,
    facts: Mapping[int, float],
    filter: Filter,
) -> tuple[dict[int, float], dict[int, float]]:
    """The scores, the best ones' neighbours among them, and each with what its neighbours and atoms give it. A filter
    that cuts sessions apart lets no neighbour count."""
    scores = dict(nearest.scores)
    whole = _whole(filter)
    order = memory.messages.read(connection)
    if whole:
        best = np.array(list(scores)[:LIFTING], dtype=np.int64)
        around = set(order.neighbours(best, [distance for distance, _ in NEIGHBOUR_SHARES]).ravel().tolist())
        unseen = _listed((around | facts.keys()) - scores.keys() - {0})
        rows = select(
            connection,
            f"select seq, vector from {nearest.table} where seq in (select value from json_each(?))",
            (unseen,),
        )
        scores |= _scores(rows, nearest.asked, nearest.usual)
    seqs = np.array(list(scores), dtype=np.int64)
    own = np.zeros(len(order.thread))
    own[seqs] = np.maximum(list(scores.values()), 0.0)
    own[seqs] += FACT_SHARE * np.array([facts.get(seq, 0.0) for seq in scores])
    total = own[seqs]
    if whole:
        beside = order.neighbours(seqs, [-distance for distance, _ in NEIGHBOUR_SHARES])
        total = total + np.array([share for _, share in NEIGHBOUR_SHARES]) @ own[beside]
    return scores, dict(zip(seqs.tolist(), total.tolist(), strict=True))


def _whole(filter: Filter) -> bool:
    """Whether the filter lets all messages of a session through or none."""
    return filter.before_seq is None and filter.after_seq is None and filter.as_of is None


def _narrow(filter: Filter) -> bool:
    """Whether the filter asks for more than the scope."""
    return any(
        value is not None
        for value in (
            filter.session_key,
            filter.type,
            filter.scene,
            filter.before_seq,
            filter.after_seq,
            filter.as_of,
        )
    )


def _listed(seqs: Iterable[int]) -> str:
    return json.dumps(list(seqs))
