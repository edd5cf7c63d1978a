"""Vectors by embedding space: what lacks one, and writing them. `vector_search` finds the nearest.

A space has one plain table a layer, keyed by the row's `seq`, with a byte a dimension. What still needs a vector stands
in `embed_queue`, written in the transaction of the row itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import apsw

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import EmbeddingSpace, Layer, TextToEmbed, VectorCounts
from memory_tencentdb_worker.store.connection import first_row, first_value, select
from memory_tencentdb_worker.text.speakers import without_speaker

_LAYERS = ("L0", "L1")


def enter_space(connection: apsw.Connection, space: EmbeddingSpace) -> int:
    """Makes the space known, with its tables, and queues every row that has no vector in it. Returns its id."""
    number = space_number(connection, space)
    if number is None:
        connection.execute(
            "insert into embedding_spaces(provider, model, dimensions, prefix, normalised) values (?, ?, ?, ?, ?)",
            _identity(space),
        )
        number = connection.last_insert_rowid()
    for layer in _LAYERS:
        table = vector_table(number, layer)
        connection.execute(
            f"create table if not exists {table}(seq integer primary key, scope text not null, vector blob not null)"
            " strict"
        )
        connection.execute(f"create index if not exists {table}_by_scope on {table}(scope, seq)")
    if first_value(connection, "select value from meta where key = 'queue_space'") != number:
        _fill_queue(connection, number)
    return number


def leave_spaces(connection: apsw.Connection) -> None:
    """From now on rows are written without being queued; the next space that is entered queues them."""
    connection.execute("delete from meta where key = 'queue_space'")


def _fill_queue(connection: apsw.Connection, space: int) -> None:
    """Reads every row; while a space stays in use, each row is queued by the transaction that writes it."""
    connection.execute("delete from embed_queue")
    connection.execute(
        "insert into embed_queue select 'L0', seq from messages"
        " where seq not in (select seq from embeddings where space = :space and layer = 'L0')"
        " union all select 'L1', seq from atoms where superseded_at is null"
        " and seq not in (select seq from embeddings where space = :space and layer = 'L1')",
        {"space": space},
    )
    connection.execute("insert or replace into meta(key, value) values ('queue_space', ?)", (space,))


def space_number(connection: apsw.Connection, space: EmbeddingSpace) -> int | None:
    """None: the store holds nothing of this space."""
    value = first_value(
        connection,
        "select id from embedding_spaces where provider = ? and model = ? and dimensions = ? and prefix = ?"
        " and normalised = ?",
        _identity(space),
    )
    return None if value is None else int(value)


def former_space(connection: apsw.Connection, space: int) -> EmbeddingSpace | None:
    """The space that answers while the one in use is being filled: of the others, the one that holds the most."""
    row = first_row(
        connection,
        "select provider, model, dimensions, prefix, normalised from embedding_spaces s"
        " join (select space, count(*) as held from embeddings where refused = 0 group by space) e on e.space = s.id"
        " where s.id <> ? order by e.held desc, s.id desc limit 1",
        (space,),
    )
    if row is None:
        return None
    provider, model, dimensions, prefix, normalised = row
    return EmbeddingSpace(provider, model, dimensions, prefix, bool(normalised))


def enqueue(connection: apsw.Connection, space: int | None, layer: str, seq: int) -> None:
    if space is not None:
        connection.execute("insert or ignore into embed_queue(layer, seq) values (?, ?)", (layer, seq))


def queued_texts(connection: apsw.Connection, space: int, limit: int) -> list[TextToEmbed]:
    """Atoms before messages, the newest first: what is asked for next is most likely new. Without the speaker's name,
    which would draw small models to everything that person said (evaluation.md 3: 13 points of recall@10)."""
    rows = select(
        connection,
        "select q.layer, q.seq, coalesce(a.content, m.text) from embed_queue q"
        " left join atoms a on q.layer = 'L1' and a.seq = q.seq"
        " left join messages m on q.layer = 'L0' and m.seq = q.seq"
        " order by q.layer desc, q.seq desc limit ?",
        (max(limit, 0),),
    )
    return [
        TextToEmbed(Layer(layer), seq, text if layer == "L1" else without_speaker(text), space)
        for layer, seq, text in rows
    ]


def write_vector(
    connection: apsw.Connection, space: int, text: TextToEmbed, vector: Sequence[float] | None, error: str, now: int
) -> str | None:
    """Replaces what was there. Returns the scope of a stored vector. A row that has gone or was superseded meanwhile
    gets none. Raises StoreError for a vector that could not be compared."""
    layer = str(text.layer)
    scope = _scope_of(connection, text)
    if scope is None:
        return None
    table = vector_table(space, layer)
    connection.execute(f"delete from {table} where seq = ?", (text.seq,))
    if vector is not None:
        from memory_tencentdb_worker.store.vector_index import pack

        check_vector(vector, space_width(connection, space))
        connection.execute(f"insert into {table}(seq, scope, vector) values (?, ?, ?)", (text.seq, scope, pack(vector)))
    connection.execute(
        "insert or replace into embeddings(space, layer, seq, refused, error, embedded_at) values (?, ?, ?, ?, ?, ?)",
        (space, layer, text.seq, int(vector is None), "" if vector is not None else error, now),
    )
    connection.execute("delete from embed_queue where layer = ? and seq = ?", (layer, text.seq))
    return scope if vector is not None else None


def drop_vector(connection: apsw.Connection, layer: str, seq: int) -> None:
    """In every space, so that an old space cannot bring back what is gone."""
    connection.execute("delete from embed_queue where layer = ? and seq = ?", (layer, seq))
    rows = select(connection, "select space from embeddings where layer = ? and seq = ?", (layer, seq))
    for (space,) in rows:
        connection.execute(f"delete from {vector_table(space, layer)} where seq = ?", (seq,))
    connection.execute("delete from embeddings where layer = ? and seq = ?", (layer, seq))


def drop_replaced_spaces(connection: apsw.Connection, space: int) -> bool:
    """Once the space in use is whole, the others are of no use any more. Whether there are none (any more).

    An embedder that refuses most texts empties the queue too; that is no reason to drop what an earlier one made
    (trap B74). The pages of a dropped table are used again by what is written next (trap B83).
    """
    others = [number for (number,) in select(connection, "select id from embedding_spaces where id <> ?", (space,))]
    if not others:
        return True
    if first_value(connection, "select 1 from embed_queue limit 1") is not None:
        return False
    counts = vector_counts(connection, space)
    if counts.refused > counts.embedded:
        return False
    for other in others:
        for layer in _LAYERS:
            connection.execute(f"drop table if exists {vector_table(other, layer)}")
        connection.execute("delete from embedding_spaces where id = ?", (other,))
    return True


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


def check_vector(vector: Sequence[float], width: int) -> None:
    """Raises StoreError for a vector that could not be compared: wrong width, not a number, no direction (trap M1)."""
    if len(vector) != width:
        raise StoreError(f"a vector of width {len(vector)} does not fit a space of width {width}", code="vector_width")
    length = sum(value * value for value in vector)
    if not math.isfinite(length) or length <= 0.0:
        raise StoreError("a vector without a direction (zero or not a number)", code="vector_value")


def space_width(connection: apsw.Connection, space: int) -> int:
    return int(first_value(connection, "select dimensions from embedding_spaces where id = ?", (space,)))


def vector_table(space: int, layer: str) -> str:
    return f"space_{int(space)}_{'l1' if layer == 'L1' else 'l0'}"


def _identity(space: EmbeddingSpace) -> tuple[str, str, int, str, int]:
    return space.provider, space.model, space.dimensions, space.prefix, int(space.normalised)


def _scope_of(connection: apsw.Connection, text: TextToEmbed) -> str | None:
    table = "atoms where superseded_at is null and" if text.layer is Layer.L1 else "messages where"
    value = first_value(connection, f"select scope from {table} seq = ?", (text.seq,))
    return None if value is None else str(value)
