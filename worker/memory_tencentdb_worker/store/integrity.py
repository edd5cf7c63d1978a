"""Whether the store is what it says it is, and putting right what can be: one look, one repairing transaction.

The texts of messages are never touched. A message that was altered is named; what rests on it alone stops being true.
"""

from __future__ import annotations

import apsw

from memory_tencentdb_worker.models import AtomChanges, JobKind, Layer
from memory_tencentdb_worker.store import atoms, jobs
from memory_tencentdb_worker.store.audit import record_change
from memory_tencentdb_worker.store.connection import first_value, select
from memory_tencentdb_worker.store.integrity_documents import ACTION, look_at_documents, repair_documents
from memory_tencentdb_worker.store.integrity_index import look_at_index, repair_index
from memory_tencentdb_worker.store.integrity_rows import (
    NEW_ATOMS_WITHOUT_JOB,
    SUPPORTED,
    TWINS,
    UNREAD_WITHOUT_JOB,
    Fault,
    fault,
    look_at_rows,
    offer_proof,
)
from memory_tencentdb_worker.store.sessions import count_change
from memory_tencentdb_worker.store.sqlite import SqliteStore
from memory_tencentdb_worker.store.turns import last_recorded_at
from memory_tencentdb_worker.store.vectors import drop_vector

__all__ = ["Fault", "Integrity"]

NEVER_REPAIRED = frozenset({"damage", "message_altered", "atom_doubtful", "line_stale"})


class Integrity:
    """Thread-safe, as the store is."""

    def __init__(self, store: SqliteStore) -> None:
        self._store, self._database = store, store.database

    def look(self, *, quick: bool) -> list[Fault]:
        """One snapshot. `quick` leaves out what reads every page and every text. Raises StoreError."""
        with self._database.read(from_disk=True) as connection:
            damage = None if quick else fault("damage", _damage(connection))
            foreign = fault("reference_broken", _broken_references(connection))
            found = [one for one in (damage, foreign) if one is not None]
            found += look_at_rows(connection, quick=quick)
            found += look_at_documents(connection)
            return found + look_at_index(connection, _space_in_use(connection), quick=quick)

    def repair(self, now: int) -> list[Fault]:
        """What was found and could be put right; a second run finds nothing of it. One durable transaction."""
        found = [one for one in self.look(quick=False) if one.code not in NEVER_REPAIRED]
        if not found:
            return []
        with self._database.write(durable=True) as connection:
            offer_proof(connection)
            _repair_turns(connection, now)
            _repair_sources(connection, now)
            space = _space_in_use(connection)
            moved = _repair_atoms(connection, space, now)
            repair_documents(connection, moved, now)
            repair_index(connection, space, look_at_index(connection, space, quick=False))
            _repair_jobs(connection, now)
            if space is not None:
                jobs.arm_embedding(connection, now)
        self._forget_vectors()
        return found

    def newest_recorded_at(self) -> int:
        """When the newest message came, by the clock of then; 0 without any."""
        with self._database.read() as connection:
            return last_recorded_at(connection)

    def drop_scope(self, scope: str) -> None:
        """Every row of a scope that nobody's memory lies in. Without tombstones: it may be written again."""
        with self._database.write(durable=True) as connection:
            messages = [row[0] for row in select(connection, "select seq from messages where scope = ?", (scope,))]
            learnt = [row[0] for row in select(connection, "select seq from atoms where scope = ?", (scope,))]
            for layer, seqs in ((Layer.L0, messages), (Layer.L1, learnt)):
                for seq in seqs:
                    drop_vector(connection, str(layer), seq)
            for table, key in (("messages_fts", "messages"), ("atoms_fts", "atoms")):
                connection.execute(
                    f"delete from {table} where rowid in (select seq from {key} where scope = ?)", (scope,)
                )
            for table in ("atom_sources", "message_places"):
                key = (
                    "atom in (select seq from atoms" if table == "atom_sources" else "seq in (select seq from messages"
                )
                connection.execute(f"delete from {table} where {key} where scope = ?)", (scope,))
            for table in _SCOPED:
                connection.execute(f"delete from {table} where scope = ?", (scope,))
        self._store.drop_from_memory(scope, messages, learnt)

    def _forget_vectors(self) -> None:
        """Rows that lost their vector are not proposed any more: they are no longer in the table."""
        with self._database.read() as connection:
            for scope in self._store.scopes():
                gone = select(
                    connection, "select seq from atoms where scope = ? and superseded_at is not null", (scope,)
                )
                self._store.drop_from_memory(scope, [], [row[0] for row in gone])


_SCOPED = (
    *("atoms", "messages", "turns", "threads", "sessions", "jobs", "parked", "rule_read", "scene_revisions"),
    *("persona_revisions", "projections", "audit", "calls", "tombstones", "forget_wishes", "scope_state"),
)


def _space_in_use(connection: apsw.Connection) -> int | None:
    """As the store last noted it, so that it is known without an embedder too."""
    value = first_value(connection, "select value from meta where key = 'queue_space'")
    return None if value is None else int(value)


def _damage(connection: apsw.Connection) -> list[tuple[object, ...]]:
    return [row for row in select(connection, "pragma quick_check(20)") if row[0] != "ok"]


def _broken_references(connection: apsw.Connection) -> list[tuple[object, ...]]:
    return [(f"{row[0]} row {row[1]}",) for row in select(connection, "pragma foreign_key_check")]


def _repair_turns(connection: apsw.Connection, now: int) -> None:
    """A message is never without its turn; a turn that has lost its messages says so in the audit."""
    connection.execute(
        "insert into turns(scope, turn_id, session_key, session_id, captured_at, recorded_at, source, last_seq)"
        " select m.scope, m.turn_id, m.session_key, max(m.session_id), min(m.sent_at), min(m.recorded_at), ?,"
        "  max(m.seq)"
        " from messages m where not exists (select 1 from turns t where t.scope = m.scope and t.turn_id = m.turn_id"
        "  and t.session_key = m.session_key) group by m.scope, m.turn_id, m.session_key",
        (ACTION,),
    )
    of_turn = "m.scope = turns.scope and m.session_key = turns.session_key and m.turn_id = turns.turn_id"
    gone = f"not exists (select 1 from messages m where m.seq = turns.last_seq and {of_turn})"
    for scope, turn_id in select(connection, f"select scope, turn_id from turns where {gone}"):
        record_change(connection, now, scope, f"{ACTION}-message-gone", turn_id, None, None)
        count_change(connection, scope, "message_changes")
    connection.execute(f"delete from turns where not exists (select 1 from messages m where {of_turn})")
    connection.execute(f"update turns set last_seq = (select max(m.seq) from messages m where {of_turn}) where {gone}")
    connection.execute(
        "insert into sessions(scope, session_key, session_id, last_seq, last_active_at)"
        " select scope, session_key, max(session_id), max(seq), max(recorded_at) from messages"
        " group by scope, session_key on conflict(scope, session_key) do update"
        " set last_seq = max(last_seq, excluded.last_seq)"
    )
    connection.execute("delete from quarantine where message not in (select seq from messages)")


def _repair_sources(connection: apsw.Connection, now: int) -> None:
    rows = select(
        connection,
        "select a.scope, a.id, x.hash from atom_sources x join atoms a on a.seq = x.atom"
        " where not exists (select 1 from messages m where m.seq = x.message)",
    )
    for scope, id, digest in rows:
        record_change(connection, now, scope, f"{ACTION}-source-gone", id, digest, None)
    connection.execute(
        "delete from atom_sources where message not in (select seq from messages)"
        " or atom not in (select seq from atoms)"
    )
    connection.execute(
        "update atoms set superseded_by = null where superseded_by is not null"
        " and superseded_by not in (select id from atoms)"
    )


def _repair_atoms(connection: apsw.Connection, space: int | None, now: int) -> dict[str, str]:
    """What rests on nothing stops being true; of twins the newest stays, with the others' sources. Returns which gave
    way to which."""
    unsupported = f"select a.scope, a.id from atoms a where a.superseded_at is null and not {SUPPORTED}"
    for scope, id in select(connection, unsupported):
        record_change(connection, now, scope, f"{ACTION}-unsupported", id, None, None)
        atoms.write_changes(connection, scope, AtomChanges(close=(id,)), {}, space, now)
    moved: dict[str, str] = {}
    for kept, seqs in select(connection, TWINS):
        scope, id = connection.execute("select scope, id from atoms where seq = ?", (kept,)).fetchone() or ("", "")
        others = [int(seq) for seq in str(seqs).split(",") if int(seq) != kept]
        names = [str(first_value(connection, "select id from atoms where seq = ?", (seq,))) for seq in others]
        changes = AtomChanges(supersede=tuple((name, id) for name in names))
        atoms.write_changes(connection, scope, changes, {}, space, now)
        moved.update(dict.fromkeys(names, id))
    return moved


def _repair_jobs(connection: apsw.Connection, now: int) -> None:
    for kind, sql in ((JobKind.L1, UNREAD_WITHOUT_JOB), (JobKind.L2, NEW_ATOMS_WITHOUT_JOB)):
        for scope, session_key in select(connection, sql):
            jobs.request_job(connection, kind, scope, session_key, now, expedite=False)
