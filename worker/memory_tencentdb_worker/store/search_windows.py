"""Keyword search over messages: what the neighbours say belongs to a message's key, not to its result.

"Where did you move to?" and "Lisbon!" are one thing said by two. So each message is scored as BM25 over a window of its
own session, in which every message counts the less the farther away it is. Windows are not stored: messages have places
(`message_places`), neighbours differ by one, and a word found at one place counts for the places around it. So the
index holds each word once, a message that comes late has its neighbours at once, and a deleted one is nobody's.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import apsw

from memory_tencentdb_worker.models import Filter, MessageHit
from memory_tencentdb_worker.store.connection import Row, first_value, select
from memory_tencentdb_worker.store.preference import Appraisal, Candidate
from memory_tencentdb_worker.store.rows import MESSAGE_COLUMNS, message_of
from memory_tencentdb_worker.store.search_terms import SearchTerm, affordable_terms
from memory_tencentdb_worker.text.speakers import speaker_of

SPREAD = ((0, 3.0), (1, 1.5), (-1, 0.9), (2, 0.7), (-2, 0.5), (3, 0.3), (-3, 0.3), (4, 0.2), (-4, 0.2))
"""What a word counts for the message so many places later. Own, one and two places as in evaluation.md (W5); the outer
four brought 0.8 points of recall@10 on LoCoMo (development half) and none elsewhere."""

NARROW_SPREAD = SPREAD[:3]
NARROW_FROM_ROWS = 200
"""A word in so many messages says little about a neighbourhood, and would cost most of the time. From 100 to 2,000
recall@10 moved by 0.4 points, and so little else."""

SATURATION = 1.5
LENGTH_SHARE = 0.4
TYPICAL_TERMS = 30
"""BM25's k1 and b. Each message is normalised by its own length before it counts for others (BM25F), so that a pasted
page does not lend its words to its neighbours. Values between 1.2 and 3, and 0.2 and 0.6, differ by 0.5 points."""

FACT_WEIGHT = 3.0
"""A word of an atom counts like a word of the messages it rests on (LongMemEval: facts in the key). On LoCoMo's
development half it brought 2.9 points of recall@5; weights from 1 to 4 differ by 0.4."""

CANDIDATES = 100
"""So many of the best by words are looked at more closely; with 200 nothing changed."""

LONGEST_LIST = 10_000
"""Messages that are looked at for one word: a question of nothing but frequent words has to end as well."""

FACT_LIMIT = 2_000
"""Messages that the atoms of one term may lead to."""

PLACE_BITS = 24
"""A place is the number of the thread, then so many bits for the number inside the thread."""


def ranked_messages(connection: apsw.Connection, terms: Sequence[str], filter: Filter, limit: int) -> list[MessageHit]:
    known = affordable_terms(connection, ("messages", "atoms"), terms) if limit > 0 else []
    scores = _place_scores(connection, known, filter)
    best = heapq.nlargest(max(CANDIDATES, 2 * limit), scores, key=scores.__getitem__)
    candidates = _candidates_at(connection, best, filter)
    appraisal = Appraisal(terms, filter.prefer, candidates)
    for one in candidates:
        scores[one.place] *= appraisal.factor(one)
    candidates.sort(key=lambda one: (-scores[one.place], -one.seq))
    return _hits_at(connection, [one.place for one in candidates[:limit]], scores)


def _place_scores(connection: apsw.Connection, terms: Iterable[SearchTerm], filter: Filter) -> dict[int, float]:
    total = int(first_value(connection, "select max(seq) from message_places") or 0)
    scores: dict[int, float] = defaultdict(float)
    for term in terms:
        weight = math.log(1 + (max(0, total - term.rows) + 0.5) / (term.rows + 0.5)) * (SATURATION + 1)
        for place, amount in _amounts(connection, term, filter).items():
            scores[place] += weight * amount / (amount + SATURATION)
    return scores


def _amounts(connection: apsw.Connection, term: SearchTerm, filter: Filter) -> dict[int, float]:
    """How much of a term each place has, by its own message, the neighbours, and the atoms drawn from it."""
    amounts: dict[int, float] = defaultdict(float)
    spread = SPREAD if term.rows < NARROW_FROM_ROWS else NARROW_SPREAD
    for place, length in _occurrences(connection, term, filter):
        share = 1 / (1 - LENGTH_SHARE + LENGTH_SHARE * length / TYPICAL_TERMS)
        for distance, weight in spread:
            amounts[place + distance] += weight * share
    for (place,) in _fact_places(connection, term, filter):
        amounts[place] += FACT_WEIGHT
    return amounts


def _occurrences(connection: apsw.Connection, term: SearchTerm, filter: Filter) -> list[Row]:
    """Place and length of each message that holds the term, as often as it holds it (once for a phrase, and for a word
    so frequent that only the newest messages are looked at)."""
    condition, values = _place_filter(filter)
    if not term.tokens or term.rows > LONGEST_LIST:
        return select(
            connection,
            "select p.place, p.terms from messages_fts f cross join message_places p on p.seq = f.rowid"
            f" cross join threads t on t.id = p.place >> {PLACE_BITS} where messages_fts match :match and {condition}"
            f" order by f.rowid desc limit {LONGEST_LIST}",
            {**values, "match": term.match},
        )
    by_token = (
        "select p.place, p.terms from messages_words w cross join message_places p on p.seq = w.doc"
        f" cross join threads t on t.id = p.place >> {PLACE_BITS} where w.term = :token and {condition}"
    )
    return [row for token in term.tokens for row in select(connection, by_token, {**values, "token": token})]


def _fact_places(connection: apsw.Connection, term: SearchTerm, filter: Filter) -> list[Row]:
    condition, values = _place_filter(filter)
    return select(
        connection,
        "select distinct p.place from atoms_fts f cross join atoms a on a.seq = f.rowid"
        " cross join atom_sources s on s.atom = a.seq cross join message_places p on p.seq = s.message"
        f" cross join threads t on t.id = p.place >> {PLACE_BITS}"
        f" where atoms_fts match :match and a.scope = :scope and a.superseded_at is null and {condition}"
        f" limit {FACT_LIMIT}",
        {**values, "match": term.match},
    )


def _candidates_at(connection: apsw.Connection, places: Sequence[int], filter: Filter) -> list[Candidate]:
    """Of places around a hit, those that are taken and that the filter lets through."""
    condition, values = _place_filter(filter)
    rows = select(
        connection,
        "select p.place, p.terms, m.seq, m.role, m.sent_at, substr(m.text, 1, 80),"
        " instr(m.text, '?') > 0 or instr(m.text, '\uff1f') > 0"
        " from json_each(:places) j cross join message_places p on p.place = j.value"
        " cross join messages m on m.seq = p.seq"
        f" cross join threads t on t.id = p.place >> {PLACE_BITS} where {condition}",
        {**values, "places": json.dumps(places)},
    )
    return [
        Candidate(place, terms / TYPICAL_TERMS, seq, role, sent_at, speaker_of(beginning), bool(asks))
        for place, terms, seq, role, sent_at, beginning, asks in rows
    ]


def _hits_at(connection: apsw.Connection, places: Sequence[int], scores: Mapping[int, float]) -> list[MessageHit]:
    rows = select(
        connection,
        f"select {MESSAGE_COLUMNS}, p.place from json_each(?) j cross join message_places p on p.place = j.value"
        " cross join messages m on m.seq = p.seq order by j.key",
        (json.dumps(places),),
    )
    return [MessageHit(message_of(row), scores[row[-1]]) for row in rows]


def _place_filter(filter: Filter) -> tuple[str, dict[str, object]]:
    """Part of the SQL, so that no limit ever starves a scope or session."""
    conditions = ["t.scope = :scope"]
    values: dict[str, object] = {"scope": filter.scope}
    if filter.session_key is not None:
        conditions.append("t.session_key = :session_key")
        values["session_key"] = filter.session_key
    if filter.before_seq is not None:
        conditions.append("p.seq < :before_seq")
        values["before_seq"] = filter.before_seq
    if filter.after_seq is not None:
        conditions.append("p.seq > :after_seq")
        values["after_seq"] = filter.after_seq
    return " and ".join(conditions), values
