"""Vectors by embedding space: what lacks one, writing them, and the nearest of them.

A space has one vec0 table a layer, keyed by the row's `seq` and partitioned by scope, so that one person's rows never
crowd out another's. What still needs a vector stands in `embed_queue`, written in the transaction of the row itself.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

import apsw

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import EmbeddingSpace, Layer, TextToEmbed, VectorCounts
from memory_tencentdb_worker.store.connection import first_row, first_value, select

NEIGHBOUR_LIMIT = 4_096
"""vec0 refuses a larger k (trap M2)."""

_CHUNK_ROWS = 128
"""A partition takes whole chunks: small ones keep a store of many users small."""

_LAYERS = ("L0", "L1")


def enter_space(connection: apsw.Connection, space: EmbeddingSpace) -> int:
    """Makes the space known, with its tables, and queues every row that has no vector in it. Returns its id."""
    identity = (space.provider, space.model, space.dimensions, space.prefix, int(space.normalised))
    connection.execute(
        "insert or ignore into embedding_spaces(provider, model, dimensions, prefix, normalised)"
        " values (?, ?, ?, ?, ?)",
        identity,
    )
    number = int(
        first_value(
            connection,
            "select id from embedding_spaces where provider = ? and model = ? and dimensions = ? and prefix = ?"
            " and normalised = ?",
            identity,
        )
    )
    for layer in _LAYERS:
        connection.execute(
            f"create virtual table if not exists {vector_table(number, layer)} using vec0(scope text partition key,"
            f" embedding float[{int(space.dimensions)}] distance_metric=cosine, chunk_size={_CHUNK_ROWS})"
        )
    connection.execute("delete from embed_queue")
    connection.execute(
        "insert into embed_queue select 'L0', seq from messages"
        " where seq not in (select seq from embeddings where space = :space and layer = 'L0')"
        " union all select 'L1', seq from atoms where superseded_at is null"
        " and seq not in (select seq from embeddings where space = :space and layer = 'L1')",
        {"space": number},
    )
    return number


def enqueue(connection: apsw.Connection, space: int | None, layer: str, seq: int) -> None:
    if space is not None:
        connection.execute("insert or ignore into embed_queue(layer, seq) values (?, ?)", (layer, seq))


def queued_texts(connection: apsw.Connection, space: int, limit: int) -> list[TextToEmbed]:
    """Atoms before messages, the newest first: what is asked for next is most likely new."""
    rows = select(
        connection,
        "select q.layer, q.seq, coalesce(a.content, m.text) from embed_queue q"
        " left join atoms a on q.layer = 'L1' and a.seq = q.seq"
        " left join messages m on q.layer = 'L0' and m.seq = q.seq"
        " order by q.layer desc, q.seq desc limit ?",
        (max(limit, 0),),
    )
    return [TextToEmbed(Layer(layer), seq, text, space) for layer, seq, text in rows]


def write_vector(
    connection: apsw.Connection, space: int, text: TextToEmbed, vector: Sequence[float] | None, error: str, now: int
) -> None:
    """Replaces what was there. A row that has gone or was superseded meanwhile gets none."""
    layer = str(text.layer)
    scope = _scope_of(connection, text)
    if scope is None:
        return
    table = vector_table(space, layer)
    connection.execute(f"delete from {table} where rowid = ?", (text.seq,))
    if vector is not None:
        packed = pack_vector(vector, space_width(connection, space))
        connection.execute(f"insert into {table}(rowid, scope, embedding) values (?, ?, ?)", (text.seq, scope, packed))
    connection.execute(
        "insert or replace into embeddings(space, layer, seq, refused, error, embedded_at) values (?, ?, ?, ?, ?, ?)",
        (space, layer, text.seq, int(vector is None), "" if vector is not None else error, now),
    )
    connection.execute("delete from embed_queue where layer = ? and seq = ?", (layer, text.seq))


def drop_vector(connection: apsw.Connection, layer: str, seq: int) -> None:
    """In every space, so that an old space cannot bring back what is gone."""
    connection.execute("delete from embed_queue where layer = ? and seq = ?", (layer, seq))
    rows = select(connection, "select space from embeddings where layer = ? and seq = ?", (layer, seq))
    for (space,) in rows:
        connection.execute(f"delete from {vector_table(space, layer)} where rowid = ?", (seq,))
    connection.execute("delete from embeddings where layer = ? and seq = ?", (layer, seq))


def drop_replaced_spaces(connection: apsw.Connection, space: int) -> None:
    """Once the space in use is complete, the others are of no use any more."""
    if first_value(connection, "select 1 from embed_queue limit 1") is not None:
        return
    rows = select(connection, "select id from embedding_spaces where id <> ?", (space,))
    for (other,) in rows:
        for layer in _LAYERS:
            connection.execute(f"drop table if exists {vector_table(other, layer)}")
        connection.execute("delete from embedding_spaces where id = ?", (other,))


def vector_counts(connection: apsw.Connection, space: int | None) -> VectorCounts:
    if space is None:
        return VectorCounts(rows=0, embedded=0, refused=0)
    row = first_row(
        connection,
        "select (select count(*) from messages) + (select count(*) from atoms where superseded_at is null),"
        " (select count(*) from embeddings where space = :space and refused = 0),"
        " (select count(*) from embeddings where space = :space and refused = 1)",
        {"space": space},
    )
    assert row is not None
    return VectorCounts(rows=row[0], embedded=row[1], refused=row[2])


def pack_vector(vector: Sequence[float], width: int) -> bytes:
    """Raises StoreError for a vector that could not be compared: wrong width, not a number, no direction (trap M1)."""
    if len(vector) != width:
        raise StoreError(f"a vector of width {len(vector)} does not fit a space of width {width}", code="vector_width")
    packed = array("f", vector)
    length = sum(value * value for value in packed)
    if not math.isfinite(length) or length <= 0.0:
        raise StoreError("a vector without a direction (zero or not a number)", code="vector_value")
    return packed.tobytes()


def space_width(connection: apsw.Connection, space: int) -> int:
    return int(first_value(connection, "select dimensions from embedding_spaces where id = ?", (space,)))


def vector_table(space: int, layer: str) -> str:
    return f"vectors_{int(space)}_{'l1' if layer == 'L1' else 'l0'}"


def _scope_of(connection: apsw.Connection, text: TextToEmbed) -> str | None:
    table = "atoms where superseded_at is null and" if text.layer is Layer.L1 else "messages where"
    value = first_value(connection, f"select scope from {table} seq = ?", (text.seq,))
    return None if value is None else str(value)
