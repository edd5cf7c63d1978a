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
from memory_tencentdb_worker.store.connection import Row, first_row, first_value, select
from memory_tencentdb_worker.store.rows import ATOM_COLUMNS, atoms_of
from memory_tencentdb_worker.store.sessions import count_change, touch_session
from memory_tencentdb_worker.store.vectors import drop_vector, enqueue
from memory_tencentdb_worker.text.segment import fold

CARRIED_SOURCES = 50
"""Without a limit a fact that changes every day costs the square of the days; older sources stay with older atoms."""


_KNOWN_COLUMNS = "a.seq, a.id, a.valid_from, a.superseded_at, a.said_at, a.end_said_at"


@dataclass(frozen=True)
class _Known:
    seq: int
    id: str
    valid_from: int
    live: bool
    said_at: int
    end_said_at: int | None


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
            _confirm(connection, known, sources)
            continue
        added.append(_insert_atom(connection, scope, new, changes.extractor, sources, now))
        connection.execute("insert into atoms_fts(rowid, text) values (?, ?)", (added[-1], terms[new.content]))
        enqueue(connection, space, "L1", added[-1])
    for old_id, new_id in changes.supersede:
        _supersede(connection, scope, old_id, new_id, now)
    for atom_id, confirming in changes.confirm:
        confirmed = _known_atom(connection, scope, atom_id)
        _confirm(connection, confirmed, _checked_sources(connection, scope, atom_id, confirming))
    for atom_id in changes.close:
        _close(connection, scope, atom_id, now if changes.closed_at is None else changes.closed_at, now)
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


def skip_atoms(connection: apsw.Connection, scope: str, session_key: str) -> None:
    """Takes the session's atoms out of L2's way: they stand in scenes already."""
    connection.execute(
        "update sessions set l2_cursor = max(l2_cursor, last_atom_seq) where scope = ? and session_key = ?",
        (scope, session_key),
    )


def _insert_atom(
    connection: apsw.Connection, scope: str, new: NewAtom, extractor: str, sources: Mapping[int, str], now: int
) -> int:
    said_at = min(_sent_at(connection, message) for message in sources)
    valid_from = said_at if new.valid_from is None else new.valid_from
    seq = int(
        first_value(
            connection,
            "insert into atoms(id, scope, type, content, priority, scene_name, scene_folded, origin, extractor,"
            " session_key, session_id, activity_start, activity_end, valid_from, recorded_from, said_at)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) returning seq",
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
                said_at,
            ),
        )
    )
    _add_sources(connection, seq, sources)
    touch_session(connection, scope, new.session_key, new.session_id, now, last_atom_seq=seq)
    return seq


def _supersede(connection: apsw.Connection, scope: str, old_id: str, new_id: str, now: int) -> None:
    """The old atom stays, with the end of its validity; its newest sources stand behind the new one too.

    An atom that has been ended already (closed since the model was asked, or read again) ends at the earlier time.
    """
    old, new = _known_atom(connection, scope, old_id), _known_atom(connection, scope, new_id)
    if old.seq == new.seq:
        raise StoreError(f"atom {old_id} cannot supersede itself")
    _hand_on_sources(connection, old, new)
    if old.live and new.seq < old.seq:
        new = _fit_in(connection, scope, old, new, now)
    if old.live:
        _end_validity(connection, old, new, now)
        record_change(connection, now, scope, "supersede", old_id, None, new.id)
    elif old.end_said_at is None or new.said_at < old.end_said_at:
        _end_earlier(connection, old, new)


def _fit_in(connection: apsw.Connection, scope: str, late: _Known, later: _Known, now: int) -> _Known:
    """A statement that was read after a later one takes its place among what that one has replaced: it ends what was
    said before it, and what was said next ends it, which is returned."""
    line = [later, *_predecessors(connection, scope, later, late)]
    after = [one for one in line if (one.said_at, one.seq) > (late.said_at, late.seq)]
    following = min(after, key=lambda one: (one.said_at, one.seq), default=later)
    for before in line:
        earlier = (before.said_at, before.seq) < (late.said_at, late.seq) and before.seq != later.seq
        if earlier and before.end_said_at is not None and before.end_said_at > late.said_at:
            _hand_on_sources(connection, before, late)
            _end_earlier(connection, before, late)
            record_change(connection, now, scope, "supersede", before.id, following.id, late.id)
    return following


def _predecessors(connection: apsw.Connection, scope: str, atom: _Known, without: _Known) -> list[_Known]:
    rows = select(
        connection,
        "with recursive line(id) as (select :id union select a.id from atoms a join line on a.superseded_by = line.id)"
        f" select {_KNOWN_COLUMNS} from atoms a join line using (id)"
        " where a.scope = :scope and a.id not in (:id, :without)",
        {"id": atom.id, "scope": scope, "without": without.id},
    )
    return [_known_of(row) for row in rows]


def _hand_on_sources(connection: apsw.Connection, old: _Known, new: _Known) -> None:
    connection.execute(
        "insert or ignore into atom_sources(atom, message, hash)"
        " select ?, message, hash from atom_sources where atom = ? order by message desc limit ?",
        (new.seq, old.seq, CARRIED_SOURCES),
    )


def _confirm(connection: apsw.Connection, atom: _Known, sources: Mapping[int, str]) -> None:
    """An older message that says the same makes the atom older, unless something else held in between."""
    _add_sources(connection, atom.seq, sources)
    first = min((_sent_at(connection, message) for message in sources), default=atom.said_at)
    if first < atom.said_at:
        connection.execute(
            "update atoms set valid_from = case when valid_from = said_at then :first else valid_from end,"
            " said_at = :first where seq = :seq"
            " and not exists (select 1 from atoms o where o.superseded_by = atoms.id and o.said_at > :first)",
            {"first": first, "seq": atom.seq},
        )


def _close(connection: apsw.Connection, scope: str, atom_id: str, closed_at: int, now: int) -> None:
    atom = _known_atom(connection, scope, atom_id)
    if atom.live:
        connection.execute(
            "update atoms set superseded_at = ?, valid_to = coalesce(valid_to, ?), end_said_at = ? where seq = ?",
            (now, max(closed_at, atom.valid_from), closed_at, atom.seq),
        )
        drop_vector(connection, "L1", atom.seq)
        record_change(connection, now, scope, "close", atom_id, None, None)


def _end_validity(connection: apsw.Connection, atom: _Known, successor: _Known, now: int) -> None:
    connection.execute(
        "update atoms set superseded_at = ?, superseded_by = ?, valid_to = coalesce(valid_to, ?), end_said_at = ?"
        " where seq = ?",
        (now, successor.id, max(successor.valid_from, atom.valid_from), successor.said_at, atom.seq),
    )
    drop_vector(connection, "L1", atom.seq)


def _end_earlier(connection: apsw.Connection, atom: _Known, successor: _Known) -> None:
    connection.execute(
        "update atoms set superseded_by = :by, valid_to = min(coalesce(valid_to, :end), :end), end_said_at = :said"
        " where seq = :seq",
        {
            "by": successor.id,
            "end": max(successor.valid_from, atom.valid_from),
            "said": successor.said_at,
            "seq": atom.seq,
        },
    )


def _known_atom(connection: apsw.Connection, scope: str, atom_id: str) -> _Known:
    atom = _find_atom(connection, scope, atom_id)
    if atom is None:
        raise StoreError(f"there is no atom {atom_id} in this scope", code="unknown_atom")
    return atom


def _find_atom(connection: apsw.Connection, scope: str, atom_id: str) -> _Known | None:
    row = first_row(
        connection, f"select {_KNOWN_COLUMNS} from atoms a where a.id = ? and a.scope = ?", (atom_id, scope)
    )
    return _known_of(row) if row else None


def _known_of(row: Row) -> _Known:
    return _Known(row[0], row[1], row[2], row[3] is None, row[4], row[5])


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
