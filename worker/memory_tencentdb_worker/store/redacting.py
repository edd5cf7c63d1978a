"""Secrets that an older version has stored: the rows keep their ids and lose their secrets, in every revision.

Lines of scenes and persona are rewritten in place, because what they say has not changed. What is derived from a text
(index, vector, hash) is made anew from the redacted one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import apsw

from memory_tencentdb_worker.models import NewMessage, Origin, Role, Section
from memory_tencentdb_worker.store import forget_rows
from memory_tencentdb_worker.store.audit import record_change
from memory_tencentdb_worker.store.connection import select
from memory_tencentdb_worker.store.message_keys import write_key
from memory_tencentdb_worker.store.rows import read_sections, write_sections
from memory_tencentdb_worker.store.sessions import count_change
from memory_tencentdb_worker.store.sqlite import SqliteStore
from memory_tencentdb_worker.store.vectors import drop_vector, enqueue
from memory_tencentdb_worker.text.ids import text_hash
from memory_tencentdb_worker.text.segment import index_text

Redact = Callable[[str], str]

_QUESTIONS = (
    "select seq, id, text from messages where scope = ?",
    "select seq, id, content from atoms where scope = ?",
    "select seq, '', summary || char(10) || sections from scene_revisions where scope = ?",
    "select seq, '', sections from persona_revisions where scope = ?",
)


@dataclass(frozen=True)
class Unredacted:
    """Rows of one scope that hold secrets, by their `seq`; `texts` holds what stands in them."""

    scope: str
    messages: tuple[int, ...]
    atoms: tuple[int, ...]
    scenes: tuple[int, ...]
    personas: tuple[int, ...]
    ids: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def rows(self) -> int:
        return len(self.messages) + len(self.atoms) + len(self.scenes) + len(self.personas)


class Redacting:
    """Thread-safe, as the store is."""

    def __init__(self, store: SqliteStore) -> None:
        self._store, self._database = store, store.database

    def look(self, scope: str, redact: Redact) -> Unredacted:
        """Reads everything of the scope. Raises StoreError."""
        with self._database.read() as connection:
            found = [
                [row for row in select(connection, question, (scope,)) if redact(row[2]) != row[2]]
                for question in _QUESTIONS
            ]
        messages, atoms, scenes, personas = (tuple(int(row[0]) for row in rows) for rows in found)
        ids = tuple(str(row[1]) for row in (*found[0], *found[1]))
        texts = tuple(str(row[2]) for rows in found for row in rows)
        return Unredacted(scope, messages, atoms, scenes, personas, ids, texts)

    def rewrite(self, found: Unredacted, redact: Redact, operation: str, now: int) -> None:
        """One durable transaction; twice does no more than once. Raises StoreError."""
        with self._database.write(durable=True) as connection:
            forget_rows.revoke_leases(connection, found.scope, now)
            self._rewrite_messages(connection, found.messages, redact)
            self._rewrite_atoms(connection, found.atoms, redact)
            _rewrite_scenes(connection, found.scenes, redact)
            _rewrite_personas(connection, found.personas, redact)
            forget_rows.clear_remarks(connection, found.scope)
            for counter in ("message_changes", "atom_changes", "scene_changes"):
                count_change(connection, found.scope, counter)
            connection.execute("update meta set value = value + 1 where key = 'messages_removed'")
            record_change(connection, now, found.scope, "redact", operation, None, None)
        self._store.drop_from_memory(found.scope, found.messages, found.atoms)

    def _rewrite_messages(self, connection: apsw.Connection, seqs: Iterable[int], redact: Redact) -> None:
        for seq in seqs:
            ((role, origin, text, sent_at),) = select(
                connection, "select role, origin, text, sent_at from messages where seq = ?", (seq,)
            )
            new = redact(text)
            digest, terms = text_hash(new), index_text(new)
            connection.execute("update messages set text = ?, hash = ? where seq = ?", (new, digest, seq))
            connection.execute("update atom_sources set hash = ? where message = ?", (digest, seq))
            connection.execute("delete from messages_fts where rowid = ?", (seq,))
            connection.execute("insert into messages_fts(rowid, text) values (?, ?)", (seq, terms))
            connection.execute("delete from message_keys where seq = ?", (seq,))
            write_key(connection, seq, NewMessage(Role(role), new, sent_at, Origin(origin)), terms)
            drop_vector(connection, "L0", seq)
            enqueue(connection, self._store.space, "L0", seq)

    def _rewrite_atoms(self, connection: apsw.Connection, seqs: Iterable[int], redact: Redact) -> None:
        for seq in seqs:
            ((content, live),) = select(
                connection, "select content, superseded_at is null from atoms where seq = ?", (seq,)
            )
            new = redact(content)
            connection.execute("update atoms set content = ? where seq = ?", (new, seq))
            connection.execute("delete from atoms_fts where rowid = ?", (seq,))
            connection.execute("insert into atoms_fts(rowid, text) values (?, ?)", (seq, index_text(new)))
            drop_vector(connection, "L1", seq)
            if live:
                enqueue(connection, self._store.space, "L1", seq)


def _rewrite_scenes(connection: apsw.Connection, seqs: Iterable[int], redact: Redact) -> None:
    for seq in seqs:
        ((summary, sections),) = select(
            connection, "select summary, sections from scene_revisions where seq = ?", (seq,)
        )
        short, text = redact(summary), _redacted(sections, redact)
        connection.execute(
            "update scene_revisions set summary = ?, sections = ?, hash = ?, reason = '' where seq = ?",
            (short, text, text_hash(short + "\n" + text), seq),
        )


def _rewrite_personas(connection: apsw.Connection, seqs: Iterable[int], redact: Redact) -> None:
    for seq in seqs:
        ((sections,),) = select(connection, "select sections from persona_revisions where seq = ?", (seq,))
        text = _redacted(sections, redact)
        connection.execute(
            "update persona_revisions set sections = ?, hash = ?, reason = '' where seq = ?",
            (text, text_hash(text), seq),
        )


def _redacted(sections: str, redact: Redact) -> str:
    return write_sections(
        tuple(
            Section(redact(section.heading), tuple(replace(line, text=redact(line.text)) for line in section.lines))
            for section in read_sections(sections)
        )
    )
