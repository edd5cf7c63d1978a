"""Keyword search over messages: what the neighbours say belongs to a message's key, not to its result.

"Where did you move to?" and "Lisbon!" are one thing said by two. So each message is scored as BM25 over a window of its
own session, in which every message counts the less the farther away it is. Windows are not stored: it is known in
memory who is whose neighbour, and a word found in one message counts for those around it. So the index holds each word
once, a message that comes late has its neighbours at once, and a deleted one is nobody's.

Rare words name the candidates, out of the index. What frequent words add is read from the words of the candidates and
their neighbours alone, so that a search costs little more in a large store than in a small one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import apsw
import numpy as np
from numpy.typing import NDArray

from memory_tencentdb_worker.models import Filter, MessageHit
from memory_tencentdb_worker.store.connection import select
from memory_tencentdb_worker.store.message_keys import WORD_BYTES
from memory_tencentdb_worker.store.message_map import Flags, MessageOrder, Seqs, Weights
from memory_tencentdb_worker.store.postings import WordsOfMessages, read_facts, read_postings
from memory_tencentdb_worker.store.preference import Candidates, factors
from memory_tencentdb_worker.store.rows import MESSAGE_COLUMNS, message_of
from memory_tencentdb_worker.store.search_memory import SearchMemory
from memory_tencentdb_worker.store.search_terms import SearchTerm, known_terms

Spread = tuple[tuple[int, float], ...]

SPREAD: Spread = ((0, 3.0), (1, 1.5), (-1, 0.9), (2, 0.7), (-2, 0.5), (3, 0.3), (-3, 0.3), (4, 0.2), (-4, 0.2))
"""What a word counts for the message so many places later. Own, one and two places as in evaluation.md (W5); the outer
four brought 0.8 points of recall@10 on LoCoMo (development half) and none elsewhere."""

NARROW_SPREAD = SPREAD[:3]
NARROW_FROM_ROWS = 200
"""A word in so many messages says little about a neighbourhood, and would cost most of the time. From 100 to 2,000
recall@10 moved by 0.4 points, and so little else."""

SATURATION = 1.5
"""BM25's k1; values between 1.2 and 3 differ by 0.5 points."""

FACT_WEIGHT = 3.0
"""A word of an atom counts like a word of the messages it rests on (LongMemEval: facts in the key). On LoCoMo's
development half it brought 2.9 points of recall@5; weights from 1 to 4 differ by 0.4."""

ROW_BUDGET = 4_000
"""Rows that the words which name candidates may match in all."""

KEPT_TERMS = 2
"""However frequent they are, and one more when all are: among thousands of messages with one word, the one that holds
the others too has to stand out. Of a million messages the one asked for is found in 99 of 100 cases, in 86 with one
kept; with frequent words only in 98, in 60 without the one more."""

COMMON_SHARE = 0.3
COMMON_FROM_ROWS = 200
"""A word in so many of the rows names no candidates while a rarer one is asked for too."""

CANDIDATES = 200
"""So many of the best by words are looked at more closely. Recall@10 on LoCoMo (development half), all conversations in
one store: 77.8 with 60, 78.1 with 100, 78.5 with 200, 78.8 with 300; each hundred costs 0.1 ms."""

FEWEST_CANDIDATES = 20
"""With fewer, the next frequent word is looked up in the index too."""

LATE_WORDS = 4_096
"""Words of a message that are compared with the frequent ones: a pasted book says nothing by holding them."""

SMALL_PART = 5_000
"""Messages that may be read word by word, where a filter leaves so few that the index is the longer way."""


def ranked_messages(
    connection: apsw.Connection, memory: SearchMemory, terms: Sequence[str], filter: Filter, limit: int
) -> list[MessageHit]:
    known = known_terms(connection, memory.counts, terms) if limit > 0 else []
    if not known:
        return []
    order = memory.messages.read(connection)
    by_words = _WindowScores(connection, order, filter)
    best = by_words.best(known, max(CANDIDATES, 2 * limit), max(FEWEST_CANDIDATES, limit))
    candidates = read_candidates(connection, best)
    if not candidates.seqs.size:
        return []
    total = by_words.of(candidates.seqs) * factors(terms, filter.prefer, candidates)
    first = np.lexsort((-candidates.seqs, -total))[:limit]
    scores = dict(zip(candidates.seqs[first].tolist(), total[first].tolist(), strict=True))
    return _read_hits(connection, filter.scope, scores)


class _WindowScores:
    """What each message has from the words of one question."""

    def __init__(self, connection: apsw.Connection, order: MessageOrder, filter: Filter) -> None:
        self._connection, self._order, self._filter = connection, order, filter
        self._allowed = order.allowed_threads(connection, filter)
        self._said = None if filter.as_of is None else _said_by(connection, len(order.thread), filter)
        self._scores: Weights = np.zeros(len(order.thread))
        self._amounts: Weights = np.zeros(len(order.thread))

    def of(self, seqs: Seqs) -> Weights:
        return self._scores[seqs]

    def best(self, terms: Sequence[SearchTerm], most: int, fewest: int) -> Seqs:
        """The messages with the highest scores. `terms`: the rarest first."""
        if self._is_small(terms):
            words = WordsOfMessages(self._connection, self._passing().tolist())
            self._add([term for term in terms if not term.has_beginning], words)
            early, late = [term for term in terms if term.has_beginning], list[SearchTerm]()
        else:
            early, late = _split(terms, self._order.newest)
        self._add(early)
        found = self._found()
        while late and len(found) < fewest:
            self._add(late[:1])
            late, found = late[1:], self._found()
        if len(found) > most:
            found = found[np.argpartition(-self._scores[found], most)[:most]]
        self._complete(found, [term for term in late if not term.has_beginning])
        return found

    def _is_small(self, terms: Sequence[SearchTerm]) -> bool:
        if self._allowed is None and self._filter.after_seq is None:
            return False
        messages = min(self._order.messages_in(self._allowed), self._order.newest - (self._filter.after_seq or 0))
        return messages <= min(SMALL_PART, sum(term.rows for term in terms) / 4)

    def _passing(self) -> Seqs:
        """Messages that the filter lets through."""
        filter = self._filter
        by_session = filter.session_key is not None
        way = "not indexed" if filter.after_seq is not None and not by_session else "indexed by messages_by_session"
        rows = select(
            self._connection,
            f"select seq from messages {way} where scope = :scope"
            f"{' and session_key = :session_key' if by_session else ''} and seq > :after_seq",
            {"scope": filter.scope, "session_key": filter.session_key, "after_seq": filter.after_seq or 0},
        )
        return self._only_passing(np.array([row[0] for row in rows], dtype=np.int64))

    def _only_passing(self, seqs: Seqs) -> Seqs:
        if self._allowed is not None:
            seqs = seqs[self._allowed[self._order.thread[seqs]]]
        if self._said is not None:
            seqs = seqs[self._said[seqs]]
        if self._filter.before_seq is not None:
            seqs = seqs[seqs < self._filter.before_seq]
        if self._filter.after_seq is not None:
            seqs = seqs[seqs > self._filter.after_seq]
        return seqs

    def _found(self) -> Seqs:
        self._scores[0] = 0.0
        return self._only_passing(np.flatnonzero(self._scores))

    def _add(self, terms: Sequence[SearchTerm], words: WordsOfMessages | None = None) -> None:
        """Of the terms what the index says, or these words."""
        if not terms:
            return
        if words is None:
            restricted = self._allowed is not None
            postings = read_postings(self._connection, terms, self._filter, restricted=restricted)
        else:
            postings = [words.holding(term) for term in terms]
        facts = read_facts(self._connection, terms, self._filter.scope)
        for spread in (SPREAD, NARROW_SPREAD):
            some = [number for number, term in enumerate(terms) if _spread(term) is spread]
            if some:
                self._add_alike([(terms[number], postings[number], facts[number]) for number in some], spread)

    def _add_alike(self, found: Sequence[tuple[SearchTerm, Seqs, Seqs]], spread: Spread) -> None:
        """Neighbours and lengths are looked up for all terms at once, sums are made for each."""
        holding = [self._only_passing(one) for _, one, _ in found]
        every = np.concatenate(holding)
        places = self._order.neighbours(every, [distance for distance, _ in spread])
        counts = np.array([[weight] for _, weight in spread]) * self._order.share[every]
        begin = 0
        for (term, _, facts), one in zip(found, holding, strict=True):
            part = slice(begin, begin + len(one))
            begin += len(one)
            self._add_term(term, places[:, part].ravel(), counts[:, part].ravel(), self._only_passing(facts))

    def _add_term(self, term: SearchTerm, places: NDArray[np.integer], counts: Weights, facts: Seqs) -> None:
        np.add.at(self._amounts, places, counts)
        if facts.size:
            np.add.at(self._amounts, facts, FACT_WEIGHT)
            places = np.concatenate((places, facts))
        # a message that is touched twice gets the same sum twice: what is assigned was added up before
        self._scores[places] += _gain(term, self._amounts[places], self._order.newest)
        self._amounts[places] = 0.0

    def _complete(self, candidates: Seqs, terms: Sequence[SearchTerm]) -> None:
        """What frequent words add to the candidates."""
        if not terms or not candidates.size:
            return
        places = self._order.neighbours(candidates, [-distance for distance, _ in NARROW_SPREAD])
        words = WordsOfMessages(self._connection, np.unique(places).tolist(), LATE_WORDS)
        rows = words.rows_of(places)
        share = np.append(self._order.share[words.seqs], 0.0)  # the last one is no message
        weights = np.array([[weight] for _, weight in NARROW_SPREAD])
        for term in terms:
            counts = np.append(words.counts(term), 0) * share
            amounts: Weights = (weights * counts[rows]).sum(axis=0)
            self._scores[candidates] += _gain(term, amounts, self._order.newest)


def _said_by(connection: apsw.Connection, size: int, filter: Filter) -> Flags:
    """Which messages had been said by the filter's instant."""
    said = np.zeros(size, dtype=np.bool_)
    rows = select(
        connection,
        "select seq from messages where scope = ? and sent_at <= ? and seq < ?",
        (filter.scope, filter.as_of, size),
    )
    said[[row[0] for row in rows]] = True
    return said


def _split(terms: Sequence[SearchTerm], total: int) -> tuple[list[SearchTerm], list[SearchTerm]]:
    """Those that name candidates, and those that only add to them."""
    early: list[SearchTerm] = []
    kept = KEPT_TERMS if terms[0].rows <= ROW_BUDGET else KEPT_TERMS + 1
    spent = 0
    for term in terms:
        spent += term.rows
        common = term.rows > max(COMMON_FROM_ROWS, COMMON_SHARE * total)
        if early and (common or (spent > ROW_BUDGET and len(early) >= kept)):
            break
        early.append(term)
    return early, list(terms[len(early) :])


def _spread(term: SearchTerm) -> Spread:
    return SPREAD if term.rows < NARROW_FROM_ROWS else NARROW_SPREAD


def _gain(term: SearchTerm, amounts: Weights, total: int) -> Weights:
    weight = math.log(1 + (max(0, total - term.rows) + 0.5) / (term.rows + 0.5)) * (SATURATION + 1)
    return weight * amounts / (amounts + SATURATION)


def read_candidates(connection: apsw.Connection, seqs: Seqs) -> Candidates:
    """Those that are there: the map in memory is a cache."""
    rows = select(
        connection,
        f"select k.seq, k.role, k.sent_at, length(k.words) / {WORD_BYTES}, k.speaker, k.asks"
        " from json_each(?) j cross join message_keys k on k.seq = j.value",
        (json.dumps(seqs.tolist()),),
    )
    return Candidates.of(rows)


def _read_hits(connection: apsw.Connection, scope: str, scores: Mapping[int, float]) -> list[MessageHit]:
    rows = select(
        connection,
        f"select {MESSAGE_COLUMNS} from json_each(?) j cross join messages m on m.seq = j.value"
        " where m.scope = ? order by j.key",
        (json.dumps(list(scores)), scope),
    )
    return [MessageHit(message_of(row), scores[row[0]]) for row in rows]
