"""Which messages hold a term: out of the full-text index, or out of the words of a few messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import apsw
import numpy as np
from numpy.typing import NDArray

from memory_tencentdb_worker.models import Filter
from memory_tencentdb_worker.store.connection import first_value, select
from memory_tencentdb_worker.store.message_keys import WORD_BYTES, word_number
from memory_tencentdb_worker.store.search_terms import SearchTerm

Seqs = NDArray[np.int64]

LONGEST_LIST = 50_000
"""Messages that are looked at for one word, the newest: a question of nothing but frequent words has to end as well."""

FACT_LIMIT = 2_000
"""Messages that the atoms of one term may lead to."""


def read_postings(
    connection: apsw.Connection, terms: Sequence[SearchTerm], filter: Filter, *, restricted: bool
) -> list[Seqs]:
    """For each term the messages that hold it, as often as they hold it (once for a phrase, and for a word so frequent
    that only the newest messages are looked at). `restricted`: the filter leaves out scopes or sessions."""
    plain = [number for number, term in enumerate(terms) if term.single_tokens and term.rows <= LONGEST_LIST]
    found = dict(zip(plain, _of_tokens(connection, [terms[number].single_tokens for number in plain]), strict=True))
    return [
        found[number] if number in found else _newest_matching(connection, term, filter, restricted=restricted)
        for number, term in enumerate(terms)
    ]


def read_facts(connection: apsw.Connection, terms: Sequence[SearchTerm], scope: str) -> list[Seqs]:
    """For each term the messages behind the atoms that hold it."""
    matches = [term.match if term.atom_rows else None for term in terms]
    found: list[list[int]] = [[] for _ in terms]
    if any(matches):
        for key, message in connection.execute(
            "select distinct j.key, s.message from json_each(:matches) j cross join atoms_fts f"
            " cross join atoms a on a.seq = f.rowid cross join atom_sources s on s.atom = a.seq"
            " where j.value is not null and atoms_fts match j.value and a.scope = :scope"
            " and a.superseded_at is null limit :most",
            {"matches": json.dumps(matches), "scope": scope, "most": FACT_LIMIT * len(terms)},
        ):
            found[key].append(message)
    return [np.array(messages, dtype=np.int64) for messages in found]


class WordsOfMessages:
    """The words of some messages, in memory: for terms that so many others hold that the index is the longer way."""

    def __init__(self, connection: apsw.Connection, seqs: Iterable[int], most_words: int = 1 << 30) -> None:
        rows = select(
            connection,
            "select seq, substr(words, 1, ?) from message_keys"
            " where seq in (select value from json_each(?)) order by seq",
            (most_words * WORD_BYTES, json.dumps(list(seqs))),
        )
        self.seqs: Seqs = np.array([row[0] for row in rows], dtype=np.int64)
        self._words = np.frombuffer(b"".join(row[1] for row in rows), dtype="<u4")
        lengths = [len(row[1]) // WORD_BYTES for row in rows]
        self._owner = np.repeat(np.arange(len(rows)), lengths)

    def holding(self, term: SearchTerm) -> Seqs:
        """Their messages with this term, as often as they hold it. Nothing for the beginning of a word."""
        return self.seqs[self._owners(term)]

    def counts(self, term: SearchTerm) -> Seqs:
        """How often each message holds the term, in the order of `seqs`."""
        return np.bincount(self._owners(term), minlength=len(self.seqs))

    def rows_of(self, seqs: NDArray[np.int32]) -> Seqs:
        """Their places in `seqs`; -1 for one that is not among them."""
        rows = np.searchsorted(self.seqs, seqs)
        known = np.append(self.seqs, -1)[rows] == seqs
        return np.where(known, rows, -1)

    def _owners(self, term: SearchTerm) -> Seqs:
        found = [self._places(form) for form in term.forms]
        return self._owner[np.concatenate(found)]

    def _places(self, tokens: Sequence[str]) -> Seqs:
        numbers = [word_number(token) for token in tokens]
        places = np.flatnonzero(self._words == numbers[0])
        for offset, number in enumerate(numbers[1:], 1):
            places = places[places + offset < len(self._words)]
            follows = (self._words[places + offset] == number) & (self._owner[places + offset] == self._owner[places])
            places = places[follows]
        return places


def _of_tokens(connection: apsw.Connection, tokens: Sequence[Sequence[str]]) -> list[Seqs]:
    """As text, because a row of SQLite costs three times what a number in a text does."""
    rows = select(
        connection,
        "select j.value, (select group_concat(doc) from messages_words where term = j.value) from json_each(?) j",
        (json.dumps(list({token for forms in tokens for token in forms})),),
    )
    found: dict[str, str | None] = dict(rows)
    return [_numbers(",".join(filter(None, [found[token] for token in forms]))) for forms in tokens]


def _newest_matching(connection: apsw.Connection, term: SearchTerm, filter: Filter, *, restricted: bool) -> Seqs:
    """The filter is part of the SQL, so that the limit never starves a scope or session."""
    conditions = ["messages_fts match :match"]
    tables = "messages_fts f"
    if restricted or filter.as_of is not None:
        tables += " cross join messages m on m.seq = f.rowid"
        conditions.append("m.scope = :scope and (:session_key is null or m.session_key = :session_key)")
        conditions.append("(:as_of is null or m.sent_at <= :as_of)")
    if filter.before_seq is not None:
        conditions.append("f.rowid < :before_seq")
    if filter.after_seq is not None:
        conditions.append("f.rowid > :after_seq")
    found = first_value(
        connection,
        f"select group_concat(rowid) from (select f.rowid from {tables} where {' and '.join(conditions)}"
        f" order by f.rowid desc limit {LONGEST_LIST})",
        {
            "match": term.match,
            "scope": filter.scope,
            "session_key": filter.session_key,
            "as_of": filter.as_of,
            "before_seq": filter.before_seq,
            "after_seq": filter.after_seq,
        },
    )
    return _numbers(found or "")


def _numbers(text: str) -> Seqs:
    return np.fromstring(text, dtype=np.int64, sep=",") if text else np.zeros(0, dtype=np.int64)
