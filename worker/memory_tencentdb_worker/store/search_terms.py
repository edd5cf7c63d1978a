"""The terms of a query as the index knows them: their tokens, and how many rows hold each."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import apsw

from memory_tencentdb_worker.store.connection import first_value, select
from memory_tencentdb_worker.store.message_keys import tokens_of
from memory_tencentdb_worker.text.segment import quote_term
from memory_tencentdb_worker.text.word_forms import word_forms

TERM_LIMIT = 32
"""Terms of one query that are scored; of a longer one the rarest."""

COUNT_DRIFT = 1.05
COUNTS_KEPT = 5_000

LAST_CHARACTER = chr(0x10FFFF)


@dataclass(frozen=True)
class SearchTerm:
    """One thing that is asked for, in all its forms."""

    match: str  # the MATCH expression
    forms: tuple[tuple[str, ...], ...]  # the tokens of each; one that ends with `*` is the beginning of a word
    rows: int  # that hold it, at most
    atom_rows: int

    @cached_property
    def single_tokens(self) -> tuple[str, ...]:
        """One for each form; () when a form is a phrase or the beginning of a word."""
        if self.has_beginning or any(len(form) != 1 for form in self.forms):
            return ()
        return tuple(dict.fromkeys(form[0] for form in self.forms))

    @cached_property
    def has_beginning(self) -> bool:
        return any(token.endswith("*") for form in self.forms for token in form)


class RowCounts:
    """How many rows hold a token, `*` behind it: a word that begins with it. Counts are kept while the table grows by a
    twentieth: they decide on weights, and on what a search can afford. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], tuple[int, int]] = {}  # rows, and the newest row when they were counted

    def count(self, connection: apsw.Connection, table: str, tokens: Sequence[str]) -> dict[str, int]:
        newest = int(first_value(connection, f"select max(seq) from {table}") or 0)
        if not newest:
            return dict.fromkeys(tokens, 0)
        counts: dict[str, int] = {}
        with self._lock:
            for token in tokens:
                rows, then = self._kept.get((table, token), (0, 0))
                if then <= newest <= then * COUNT_DRIFT:
                    counts[token] = rows
        missing = [token for token in tokens if token not in counts]
        counts |= _count_rows(connection, table, missing)
        found = {(table, token): (counts[token], newest) for token in missing if counts[token]}
        with self._lock:
            if len(self._kept) + len(found) > COUNTS_KEPT:
                self._kept.clear()
            self._kept |= found
        return counts


def known_terms(connection: apsw.Connection, counts: RowCounts, terms: Sequence[str]) -> list[SearchTerm]:
    """Those that some message or atom holds, the rarest first, at most TERM_LIMIT."""
    split = {form: _tokens(connection, form) for term in terms for form in word_forms(term)}
    tokens = list(dict.fromkeys(token for form in split.values() for token in form))
    messages, atoms = (counts.count(connection, table, tokens) for table in ("messages", "atoms"))
    found = [_search_term(term, split, messages, atoms) for term in terms]
    return sorted((term for term in found if term.rows), key=lambda term: term.rows)[:TERM_LIMIT]


def _search_term(
    term: str, split: Mapping[str, Sequence[str]], messages: Mapping[str, int], atoms: Mapping[str, int]
) -> SearchTerm:
    rows = {form: (_rows(split[form], messages), _rows(split[form], atoms)) for form in word_forms(term)}
    forms = [form for form, counted in rows.items() if any(counted) or form == term]
    in_messages, in_atoms = (sum(column) for column in zip(*rows.values(), strict=True))
    return SearchTerm(
        match=" OR ".join(map(quote_term, forms)),
        forms=tuple(tuple(split[form]) for form in forms),
        rows=in_messages + in_atoms,
        atom_rows=in_atoms,
    )


def _rows(tokens: Sequence[str], counts: Mapping[str, int]) -> int:
    """Rows that hold the tokens of a form, added up: a phrase of frequent words is as dear as all of them. 0 when one
    of them is nowhere."""
    rows = [counts[token] for token in tokens]
    return sum(rows) if all(rows) else 0


def _count_rows(connection: apsw.Connection, table: str, tokens: Iterable[str]) -> dict[str, int]:
    bounds = [
        (token, token.rstrip("*"), token.rstrip("*") + LAST_CHARACTER if token.endswith("*") else token)
        for token in tokens
    ]
    rows = select(
        connection,
        f"select j.value ->> 0, coalesce((select sum(doc) from {table}_terms"
        " where term >= j.value ->> 1 and term <= j.value ->> 2), 0) from json_each(?) j",
        (json.dumps(bounds),),
    )
    return {token: int(count) for token, count in rows}


def _tokens(connection: apsw.Connection, form: str) -> list[str]:
    tokens = tokens_of(connection, form)
    return [f"{token}*" for token in tokens] if quote_term(form).endswith("*") else tokens
