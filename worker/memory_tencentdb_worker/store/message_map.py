"""The order of all messages in memory: who is whose neighbour, how long each is, which threads a filter lets through.

A cache of `message_places` and `threads`, some twenty bytes a message, addressed by `seq`. It grows with what was
written since, and is read anew once a message was removed. It may name messages that are gone or that a reader's
snapshot does not see yet: what is answered comes out of the tables.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import apsw
import numpy as np
from numpy.typing import NDArray

from memory_tencentdb_worker.models import Filter
from memory_tencentdb_worker.store.connection import first_row, first_value, select
from memory_tencentdb_worker.store.message_keys import PLACE_BITS

Seqs = NDArray[np.int64]
Numbers = NDArray[np.int32]
Weights = NDArray[np.float64]
Flags = NDArray[np.bool_]

_Kind = TypeVar("_Kind", bound=np.generic)

ROWS_AT_ONCE = 50_000

_NO_SCOPE = -2
"""-1 stands for a thread that is not there."""

LENGTH_SHARE = 0.4
TYPICAL_TERMS = 30
"""BM25's b. Each message is normalised by its own length before it counts for others (BM25F), so that a pasted page
does not lend its words to its neighbours. Values between 0.2 and 0.6 differ by 0.5 points."""


@dataclass(frozen=True)
class MessageOrder:
    """The map as it was at one moment, with room for what comes: a message that is written meanwhile may appear in it
    as a neighbour. 0 stands for no message."""

    thread: Numbers
    before: Numbers
    after: Numbers
    share: Weights  # what one word of the message counts, by its length
    scope_of_thread: Numbers
    messages_of_thread: Seqs
    scopes: dict[str, int]
    newest: int

    def neighbours(self, seqs: Seqs, distances: Sequence[int]) -> Numbers:
        """A row for each distance, negative ones before: the messages there. The nearer ones come first in
        `distances`."""
        found = {0: seqs.astype(np.int32)}
        for distance in distances:
            if distance > 0:
                found[distance] = self.after[found[distance - 1]]
            elif distance < 0:
                found[distance] = self.before[found[distance + 1]]
        return np.stack([found[distance] for distance in distances])

    def allowed_threads(self, connection: apsw.Connection, filter: Filter) -> Flags | None:
        """None: every one."""
        if filter.session_key is None:
            if len(self.scopes) == 1 and filter.scope in self.scopes:
                return None
            of_scope: Flags = self.scope_of_thread == self.scopes.get(filter.scope, _NO_SCOPE)
            return of_scope
        allowed = np.zeros(len(self.scope_of_thread), dtype=np.bool_)
        rows = select(
            connection,
            "select id from threads where scope = ? and session_key = ? and id < ?",
            (filter.scope, filter.session_key, len(allowed)),
        )
        allowed[[row[0] for row in rows]] = True
        return allowed

    def messages_in(self, allowed: Flags | None) -> int:
        counts = self.messages_of_thread if allowed is None else self.messages_of_thread[allowed]
        return int(counts.sum())


class MessageMap:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._removed = -1
        self._clear()

    def read(self, connection: apsw.Connection) -> MessageOrder:
        """With everything that the connection's snapshot holds."""
        newest, removed = first_row(
            connection,
            "select (select max(seq) from message_places), (select value from meta where key = 'messages_removed')",
        ) or (None, 0)
        with self._lock:
            if removed > self._removed:  # an older snapshot changes nothing
                self._clear()
                self._removed = removed
            if (newest or 0) > self._newest:
                self._read_threads(connection)
                self._read_messages(connection, newest)
            return MessageOrder(
                self._thread,
                self._before,
                self._after,
                self._share,
                self._scope_of_thread,
                self._messages_of_thread,
                self._scopes,
                self._newest,
            )

    def _clear(self) -> None:
        self._newest = 0
        self._thread, self._before, self._after = (np.zeros(1, dtype=np.int32) for _ in range(3))
        self._share = np.zeros(1)
        self._scopes: dict[str, int] = {}
        self._scope_of_thread = np.full(1, -1, dtype=np.int32)
        self._messages_of_thread = np.zeros(1, dtype=np.int64)
        self._newest_of_thread = np.zeros(1, dtype=np.int32)

    def _read_threads(self, connection: apsw.Connection) -> None:
        known = len(self._scope_of_thread)
        highest = int(first_value(connection, "select max(id) from threads") or 0)
        if highest < known:
            return
        scopes = dict(self._scopes)
        self._scope_of_thread = _grown(self._scope_of_thread, highest + 1, -1)
        self._messages_of_thread = _grown(self._messages_of_thread, highest + 1)
        self._newest_of_thread = _grown(self._newest_of_thread, highest + 1)
        for number, scope in connection.execute("select id, scope from threads where id >= ?", (known,)):
            self._scope_of_thread[number] = scopes.setdefault(scope, len(scopes))
        self._scopes = scopes

    def _read_messages(self, connection: apsw.Connection, newest: int) -> None:
        if newest >= len(self._thread):
            size = max(newest + 1, len(self._thread) * 3 // 2)
            self._thread = _grown(self._thread, size)
            self._before, self._after = _grown(self._before, size), _grown(self._after, size)
            self._share = _grown(self._share, size)
        while self._newest < newest:
            rows = select(
                connection,
                "select seq, place, terms from message_places where seq > ? order by seq limit ?",
                (self._newest, ROWS_AT_ONCE),
            )
            self._take_in(np.array(rows, dtype=np.int64))
            self._newest = rows[-1][0]

    def _take_in(self, rows: NDArray[np.int64]) -> None:
        rows = rows[np.argsort(rows[:, 1], kind="stable")]
        seqs, threads = rows[:, 0], rows[:, 1] >> PLACE_BITS
        self._thread[seqs] = threads
        self._share[seqs] = 1 / (1 - LENGTH_SHARE + LENGTH_SHARE * rows[:, 2] / TYPICAL_TERMS)
        first = np.ones(len(seqs), dtype=np.bool_)
        first[1:] = threads[1:] != threads[:-1]
        before = np.roll(seqs, 1)
        before[first] = self._newest_of_thread[threads[first]]
        self._before[seqs] = before
        self._after[before] = seqs
        self._after[0] = 0
        self._newest_of_thread[threads] = seqs  # of several the last one stays
        np.add.at(self._messages_of_thread, threads, 1)


def _grown(array: NDArray[_Kind], size: int, fill: int = 0) -> NDArray[_Kind]:
    """A copy, because readers hold the former one."""
    grown = np.full(size, fill, dtype=array.dtype)
    grown[: len(array)] = array
    return grown
