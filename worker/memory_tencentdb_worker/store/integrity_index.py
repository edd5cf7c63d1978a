"""What is kept beside the rows so that they are found: full-text index, places, words, vectors. All of it can be made
again from the rows."""

from __future__ import annotations

import re
from collections.abc import Iterable

import apsw

from memory_tencentdb_worker.models import NewMessage, Origin, Role
from memory_tencentdb_worker.store.connection import first_value, select
from memory_tencentdb_worker.store.integrity_rows import Fault, fault
from memory_tencentdb_worker.store.message_keys import PLACE_BITS, WORD_BYTES, offer_functions, write_key
from memory_tencentdb_worker.store.vectors import vector_table
from memory_tencentdb_worker.text.segment import index_text

_SPACE_TABLE = re.compile(r"space_(\d+)_(l[01])", re.ASCII)

_CHECKS: tuple[tuple[str, str], ...] = (
    ("index_missing", "select id from messages where seq not in (select id from messages_fts_docsize)"),
    ("index_missing", "select id from atoms where seq not in (select id from atoms_fts_docsize)"),
    ("index_ghost", "select 'message row ' || id from messages_fts_docsize where id not in (select seq from messages)"),
    ("index_ghost", "select 'atom row ' || id from atoms_fts_docsize where id not in (select seq from atoms)"),
    (
        "place_wrong",
        "select m.id from messages m left join message_places p on p.seq = m.seq left join threads t"
        f" on t.id = p.place >> {PLACE_BITS} and t.scope = m.scope and t.session_key = m.session_key"
        " and t.session_id = m.session_id where t.id is null",
    ),
    (
        "place_wrong",
        "select m.id from message_places p join messages m on m.seq = p.seq where exists"
        " (select 1 from message_places o where o.place = p.place and o.seq <> p.seq)",
    ),
    ("key_missing", "select id from messages where seq not in (select seq from message_keys)"),
    (
        "key_ghost",
        "select 'message row ' || seq from (select seq from message_keys union select seq from message_places)"
        " where seq not in (select seq from messages)",
    ),
    (
        "queue_ghost",
        "select layer || ' row ' || seq from embed_queue where (layer = 'L0' and seq not in (select seq from messages))"
        " or (layer = 'L1' and seq not in (select seq from atoms where superseded_at is null))",
    ),
)

_WRONG_WORDS = (
    "select m.id from messages m join message_keys k on k.seq = m.seq join messages_fts_docsize d on d.id = m.seq"
    " where m.hash = text_hash(m.text) and (k.words <> packed_words(m.text)"
    f" or fts_length(d.sz) <> length(k.words) / {WORD_BYTES})"
)
"""A text that was altered is no measure for its index."""

_ROWS = {"L0": "select seq from messages", "L1": "select seq from atoms where superseded_at is null"}
_TEXTS = {"l0": "messages", "l1": "atoms"}


def look_at_index(connection: apsw.Connection, space: int | None, *, quick: bool) -> list[Fault]:
    """`quick` leaves out what reads every text."""
    offer_functions(connection)
    connection.create_scalar_function("fts_length", lambda *values: _varint(values[0]), 1, deterministic=True)
    found = [fault(code, select(connection, sql)) for code, sql in _CHECKS]
    if not quick:
        found.append(fault("index_wrong", select(connection, _WRONG_WORDS)))
    found += [fault("vector_ghost", _ghost_vectors(connection)), fault("vector_lost", _lost_vectors(connection, space))]
    return _merged(one for one in found if one is not None)


def repair_index(connection: apsw.Connection, space: int | None, found: Iterable[Fault]) -> None:
    """Only what `look_at_index` has found."""
    offer_functions(connection)
    codes = {one.code: one.where for one in found}
    _index_anew(connection, codes)
    if "place_wrong" in codes:
        _place_anew(connection, codes["place_wrong"])
    if "key_ghost" in codes:
        for table in ("message_keys", "message_places"):
            connection.execute(f"delete from {table} where seq not in (select seq from messages)")
    if "vector_ghost" in codes or "queue_ghost" in codes:
        _drop_ghost_vectors(connection)
    if space is not None:  # ghosts may have stood in the place of vectors
        for layer, rows in _ROWS.items():
            _queue_lost(connection, space, layer, rows)


# ------------------------------------------------------------------------------------------------------- words


def _index_anew(connection: apsw.Connection, codes: dict[str, tuple[str, ...]]) -> None:
    if "index_ghost" in codes:
        for table in ("messages", "atoms"):
            connection.execute(
                f"delete from {table}_fts where rowid in"
                f" (select id from {table}_fts_docsize where id not in (select seq from {table}))"
            )
    ids = {id for code in ("index_missing", "index_wrong", "key_missing") for id in codes.get(code, ())}
    for id in sorted(ids):
        row = connection.execute("select seq, role, text, sent_at, origin from messages where id = ?", (id,)).fetchone()
        if row is not None:
            message = NewMessage(Role(row[1]), row[2], row[3], Origin(row[4]))
            terms = index_text(message.text)
            _put_terms(connection, "messages_fts", row[0], terms)
            connection.execute("delete from message_keys where seq = ?", (row[0],))
            write_key(connection, row[0], message, terms)
            continue
        atom = connection.execute("select seq, content from atoms where id = ?", (id,)).fetchone()
        if atom is not None:
            _put_terms(connection, "atoms_fts", atom[0], index_text(atom[1]))


def _put_terms(connection: apsw.Connection, table: str, seq: int, terms: str) -> None:
    connection.execute(f"delete from {table} where rowid = ?", (seq,))
    connection.execute(f"insert into {table}(rowid, text) values (?, ?)", (seq, terms))


def _place_anew(connection: apsw.Connection, ids: Iterable[str]) -> None:
    """Numbers every message of the threads concerned again, in the order in which they came."""
    threads = {
        connection.execute("select scope, session_key, session_id from messages where id = ?", (id,)).fetchone()
        for id in ids
    }
    for thread in sorted(filter(None, threads)):
        rows = select(
            connection,
            "select m.seq, m.text, p.terms from messages m left join message_places p on p.seq = m.seq"
            " where m.scope = ? and m.session_key = ? and m.session_id = ? order by m.seq",
            thread,
        )
        number = first_value(
            connection,
            "insert into threads(scope, session_key, session_id, messages) values (?, ?, ?, ?)"
            " on conflict do update set messages = excluded.messages returning id",
            (*thread, len(rows)),
        )
        for place, (seq, text, terms) in enumerate(rows, 1):
            connection.execute("delete from message_places where seq = ?", (seq,))  # what is in memory is read anew
            connection.execute(
                "insert into message_places(seq, place, terms) values (?, ? << ? | ?, ?)",
                (seq, number, PLACE_BITS, place, terms or 1 + index_text(text).count(" ")),
            )


def _varint(size: bytes) -> int:
    """How many words FTS5 has of the row: its `sz` is one number in SQLite's variable length."""
    number = 0
    for byte in size:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return number


# ----------------------------------------------------------------------------------------------------- vectors


def _ghost_vectors(connection: apsw.Connection) -> list[tuple[str]]:
    ghosts = select(
        connection,
        "select layer || ' row ' || seq from embeddings where (layer = 'L0' and seq not in (select seq from messages))"
        " or (layer = 'L1' and seq not in (select seq from atoms where superseded_at is null))",
    )
    for table, space, layer in _vector_tables(connection):
        ghosts += select(connection, f"select '{table} row ' || v.seq {_unowned(table, space, layer)}")
    return [(str(row[0]),) for row in ghosts]


def _drop_ghost_vectors(connection: apsw.Connection) -> None:
    for layer, rows in _ROWS.items():
        for table in ("embeddings", "embed_queue"):
            connection.execute(f"delete from {table} where layer = ? and seq not in ({rows})", (layer,))
    for table, space, layer in _vector_tables(connection):
        connection.execute(f"delete from {table} where seq in (select v.seq {_unowned(table, space, layer)})")


def _unowned(table: str, space: int, layer: str) -> str:
    """Vectors of no row, of another scope's row, of a wrong width, or that nothing is known of."""
    live = " and r.superseded_at is null" if layer == "l1" else ""
    return (
        f"from {table} v left join {_TEXTS[layer]} r on r.seq = v.seq and r.scope = v.scope{live}"
        f" left join embeddings e on e.space = {space} and e.layer = '{layer.upper()}' and e.seq = v.seq"
        " and e.refused = 0"
        f" left join embedding_spaces s on s.id = {space}"
        " where r.seq is null or e.seq is null or length(v.vector) <> s.dimensions"
    )


def _lost_vectors(connection: apsw.Connection, space: int | None) -> list[tuple[str]]:
    """Rows without a vector that nothing will embed."""
    if space is None:
        return []
    lost = [
        row
        for layer, rows in _ROWS.items()
        for row in select(connection, f"select '{layer} row ' || seq from ({_lost(space, layer, rows)})")
    ]
    return [(str(row[0]),) for row in lost]


def _queue_lost(connection: apsw.Connection, space: int, layer: str, rows: str) -> None:
    lost = select(connection, _lost(space, layer, rows))
    for (seq,) in lost:
        connection.execute("delete from embeddings where space = ? and layer = ? and seq = ?", (space, layer, seq))
        connection.execute("insert or ignore into embed_queue(layer, seq) values (?, ?)", (layer, seq))


def _lost(space: int, layer: str, rows: str) -> str:
    table = vector_table(space, layer)
    return (
        f"select r.seq from ({rows}) r left join embeddings e on e.space = {space} and e.layer = '{layer}'"
        f" and e.seq = r.seq where not exists (select 1 from embed_queue q where q.layer = '{layer}' and q.seq = r.seq)"
        f" and (e.seq is null or (e.refused = 0 and not exists (select 1 from {table} v where v.seq = r.seq)))"
    )


def _vector_tables(connection: apsw.Connection) -> list[tuple[str, int, str]]:
    names = [str(row[0]) for row in select(connection, "select name from sqlite_schema where type = 'table'")]
    matches = [match for name in names if (match := _SPACE_TABLE.fullmatch(name))]
    return [(match[0], int(match[1]), match[2]) for match in matches]


def _merged(found: Iterable[Fault]) -> list[Fault]:
    where: dict[str, dict[str, None]] = {}
    for one in found:
        where.setdefault(one.code, {}).update(dict.fromkeys(one.where))
    return [Fault(code, tuple(ids)) for code, ids in where.items()]
