"""The reads from which the readable files are made: each method is one snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from memory_tencentdb_worker.models import Atom, Message
from memory_tencentdb_worker.store import reads, sessions, turns
from memory_tencentdb_worker.store.connection import Database
from memory_tencentdb_worker.text.times import LATEST_MS


class FileReads:
    def __init__(self, database: Database) -> None:
        self._database = database

    def change_mark(self, scope: str) -> tuple[int, int, int, int]:
        with self._database.read() as connection:
            return sessions.change_mark(connection, scope)

    def messages_between(self, scope: str, since: int, until: int) -> list[Message]:
        with self._database.read() as connection:
            return reads.messages_between(connection, scope, since, until)

    def messages_after(self, scope: str, seq: int, since: int = 0) -> tuple[int, list[Message]]:
        with self._database.read() as connection:
            mark = sessions.change_mark(connection, scope)[0]
            return mark, reads.messages_after(connection, scope, seq, since)

    def message_seqs(self, scope: str, since: int = 0, until: int = LATEST_MS) -> tuple[int, Sequence[int]]:
        with self._database.read() as connection:
            mark = sessions.change_mark(connection, scope)[0]
            return mark, reads.message_seqs(connection, scope, since, until)

    def messages_by_seq(self, seqs: Sequence[int]) -> list[Message]:
        with self._database.read() as connection:
            return turns.messages_by_seq(connection, seqs)

    def atom_marks(self, scope: str) -> list[tuple[int, int]]:
        with self._database.read() as connection:
            return reads.atom_marks(connection, scope)

    def atoms_between(self, scope: str, since: int, until: int, *, after_seq: int = 0, limit: int = -1) -> list[Atom]:
        with self._database.read() as connection:
            return reads.atoms_between(connection, scope, since, until, after_seq, limit)

    def projection_hashes(self, scope: str) -> dict[str, str]:
        with self._database.read() as connection:
            return reads.projection_hashes(connection, scope)
