"""L1: writing atoms with their provenance, superseding, confirming and closing them.

An atom rests on messages of its own scope whose text is still what it was when the atom was made; anything else is
refused as a whole, so that no atom can name a source that does not carry it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import apsw

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import Atom, AtomChanges, NewAtom, Source
from memory_tencentdb_worker.store.audit import record_change
from memory_tencentdb_worker.store.connection import first_row, first_value, select
from memory_tencentdb_worker.store.rows import ATOM_COLUMNS, atoms_of
from memory_tencentdb_worker.store.sessions import count_change, touch_session
from memory_tencentdb_worker.store.vectors import drop_vector, enqueue
from memory_tencentdb_worker.text.segment import fold

CARRIED_SOURCES = 50
"""Without a limit a fact that changes every day costs the square of the days; older sources stay with older atoms."""


@dataclass(frozen=True)
class _Known:
    seq: int
    valid_from: int
    live: bool


def write_changes(
    connection: apsw.Connection,
    scope: str,
    changes: AtomChanges,
    terms: Mapping[str, str],
    space: int | None,
    now: int,
) -> list[Atom]:
    """`terms` holds the index text of each atom to add, by content. Returns the atoms that are new."""
    added = []
    for new in changes.add:
        sources = _checked_sources(connection, scope, new.id, new.sources)
        if not sources:
            raise StoreError(f"atom {new.id} rests on no message", code="no_source")
        known = _find_atom(connection, scope, new.id)
        if known:
            _add_sources(connection, known.seq, sources)
            continue
        added.append(_insert_atom(connection, scope, new, changes.extractor, sources, now))
        connection.execute("insert into atoms_fts(rowid, text) values (?, ?)", (added[-1], terms[new.content]))
        enqueue(connection, space, "L1", added[-1])
    for old_id, new_id in changes.supersede:
        _supersede(connection, scope, old_id, new_id, now)
    for atom_id, confirming in changes.confirm:
        confirmed = _known_atom(connection, scope, atom_id)
        _add_sources(connection, confirmed.seq, _checked_sources(connection, scope, atom_id, confirming))
    for atom_id in changes.close:
        _close(connection, scope, atom_id, now)
    if changes.add or changes.supersede or changes.confirm or changes.close:
        count_change(connection, scope, "atom_changes")
    return atoms_by_seq(connection, added)


def atoms_by_seq(connection: apsw.Connection, seqs: Sequence[int]) -> list[Atom]:
    rows = [first_row(connection, f"select {ATOM_COLUMNS} from atoms a where a.seq = ?", (seq,)) for seq in seqs]
    return atoms_of(connection, [row for row in rows if row])


def unread_atoms(connection: apsw.Connection, scope: str, session_key: str, limit: int) -> list[Atom]:
    """Live atoms of the session that no scene run has read, oldest first; a parked run's input is read again."""
    rows = select(
        connection,
        f"select {ATOM_COLUMNS} from atoms a where a.scope = :scope and a.session_key = :session_key"
        " and a.superseded_at is null and a.seq > coalesce("
        "  (select l2_cursor from sessions where scope = :scope and session_key = :session_key), 0)"
        " order by a.seq limit :limit",
        {"scope": scope, "session_key": session_key, "limit": max(limit, 0)},
    )
    return atoms_of(connection, rows)


def _insert_atom(
    connection: apsw.Connection, scope: str, new: NewAtom, extractor: str, sources: Mapping[int, str], now: int
) -> int:
    valid_from = new.valid_from
    if valid_from is None:
        valid_from = min(int(_sent_at(connection, message)) for message in sources)
    seq = int(
        first_value(
            connection,
            "insert into atoms(id, scope, type, content, priority, scene_name, scene_folded, origin, extractor,"
            " session_key, session_id, activity_start, activity_end, valid_from, recorded_from)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) returning seq",
            (
                new.id,
                scope,
                new.type,
                new.content,
                new.priority,
                new.scene_name,
                fold(new.scene_name),
                new.origin,
                extractor,
                new.session_key,
                new.session_id,
                new.activity_start,
                new.activity_end,
                valid_from,
                now,
            ),
        )
    )
    _add_sources(connection, seq, sources)
    touch_session(connection, scope, new.session_key, new.session_id, now, last_atom_seq=seq)
    return seq


def _supersede(connection: apsw.Connection, scope: str, old_id: str, new_id: str, now: int) -> None:
    """The old atom stays, with the end of its validity; its newest sources stand behind the new one too."""
    old, new = _known_atom(connection, scope, old_id), _known_atom(connection, scope, new_id)
    if old.seq == new.seq:
        raise StoreError(f"atom {old_id} cannot supersede itself")
    connection.execute(
        "insert or ignore into atom_sources(atom, message, hash)"
        " select ?, message, hash from atom_sources where atom = ? order by message desc limit ?",
        (new.seq, old.seq, CARRIED_SOURCES),
    )
    if old.live:  # it may have been closed since the model was asked
        _end_validity(connection, old, max(new.valid_from, old.valid_from), new_id, now)
        record_change(connection, now, scope, "supersede", old_id, None, new_id)


def _close(connection: apsw.Connection, scope: str, atom_id: str, now: int) -> None:
    atom = _known_atom(connection, scope, atom_id)
    if atom.live:
        _end_validity(connection, atom, max(now, atom.valid_from), None, now)
        record_change(connection, now, scope, "close", atom_id, None, None)


def _end_validity(connection: apsw.Connection, atom: _Known, valid_to: int, successor: str | None, now: int) -> None:
    connection.execute(
        "update atoms set superseded_at = ?, superseded_by = ?, valid_to = coalesce(valid_to, ?) where seq = ?",
        (now, successor, valid_to, atom.seq),
    )
    drop_vector(connection, "L1", atom.seq)


def _known_atom(connection: apsw.Connection, scope: str, atom_id: str) -> _Known:
    atom = _find_atom(connection, scope, atom_id)
    if atom is None:
        raise StoreError(f"there is no atom {atom_id} in this scope", code="unknown_atom")
    return atom


def _find_atom(connection: apsw.Connection, scope: str, atom_id: str) -> _Known | None:
    row = first_row(
        connection, "select seq, valid_from, superseded_at from atoms where id = ? and scope = ?", (atom_id, scope)
    )
    return _Known(row[0], row[1], row[2] is None) if row else None


def _checked_sources(
    connection: apsw.Connection, scope: str, atom_id: str, sources: Sequence[Source]
) -> dict[int, str]:
    """Message `seq` -> hash. Raises StoreError for a message that is unknown, another scope's, or changed since."""
    checked = {}
    for source in sources:
        row = first_row(connection, "select seq, scope, hash from messages where id = ?", (source.message_id,))
        if row is None or row[1] != scope:
            raise StoreError(f"atom {atom_id}: no message {source.message_id} in this scope", code="unknown_source")
        if row[2] != source.message_hash:
            raise StoreError(f"atom {atom_id}: message {source.message_id} has another text now", code="changed_source")
        checked[int(row[0])] = str(row[2])
    return checked


def _add_sources(connection: apsw.Connection, atom: int, sources: Mapping[int, str]) -> None:
    connection.executemany(
        "insert or ignore into atom_sources(atom, message, hash) values (?, ?, ?)",
        [(atom, message, digest) for message, digest in sources.items()],
    )


def _sent_at(connection: apsw.Connection, message: int) -> int:
    return int(first_value(connection, "select sent_at from messages where seq = ?", (message,)))
