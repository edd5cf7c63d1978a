"""The terms of a query as the index knows them: their tokens, and which of them a search can afford."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from memory_tencentdb_worker.store.connection import first_value
from memory_tencentdb_worker.text.segment import quote_term
from memory_tencentdb_worker.text.word_forms import word_forms

TERM_LIMIT = 32
"""Terms of one query that are scored; of a longer one the rarest."""

ROW_BUDGET = 4_000
"""Rows that the terms of one query may match in all, the rarest terms first: each costs one to two microseconds. Down
to 1,000 nothing was lost on LoCoMo and MemoryBank, whose stores are small."""

KEPT_TERMS = 3
"""However frequent they are."""

COMMON_SHARE = 0.3
COMMON_FROM_ROWS = 200
"""A word in so many of the rows is left out while a rarer one is asked for too: it costs most and decides nothing
(LoCoMo, development half: the same recall in a third of the time)."""


@dataclass(frozen=True)
class SearchTerm:
    """One thing that is asked for, in all its forms."""

    match: str  # the MATCH expression
    tokens: tuple[str, ...]  # of each form; () when a form is a phrase or the beginning of a word
    rows: int  # that hold it, at most


def affordable_terms(connection: apsw.Connection, tables: Sequence[str], terms: Sequence[str]) -> list[SearchTerm]:
    """The terms that some row of the tables holds, in the order of the query, as many as the budget allows, the rarest
    first."""
    found = _without_common(
        [term for term in (_read_term(connection, tables, term) for term in terms) if term.rows],
        int(first_value(connection, f"select max(seq) from {tables[0]}") or 0),
    )
    kept: set[str] = set()
    spent = 0
    for term in sorted(found, key=lambda term: term.rows):
        spent += term.rows
        if len(kept) >= TERM_LIMIT or (spent > ROW_BUDGET and len(kept) >= KEPT_TERMS):
            break
        kept.add(term.match)
    return [term for term in found if term.match in kept]


def _without_common(terms: list[SearchTerm], total: int) -> list[SearchTerm]:
    rare = [term for term in terms if term.rows <= max(COMMON_FROM_ROWS, COMMON_SHARE * total)]
    return rare or terms


def _read_term(connection: apsw.Connection, tables: Sequence[str], term: str) -> SearchTerm:
    """A phrase of frequent words is as dear as all of them."""
    rows = {form: sum(_row_count(connection, table, form) for table in tables) for form in word_forms(term)}
    forms = [form for form, count in rows.items() if count or form == term]
    split = [_tokens(connection, form) for form in forms]
    single = all(len(tokens) == 1 for tokens in split) and not any(quote_term(form).endswith("*") for form in forms)
    return SearchTerm(
        match=" OR ".join(map(quote_term, forms)),
        tokens=tuple(dict.fromkeys(tokens[0] for tokens in split)) if single else (),
        rows=sum(rows.values()),
    )


def _row_count(connection: apsw.Connection, table: str, form: str) -> int:
    """Rows that hold the tokens of a form, added up; 0 when one of them is nowhere."""
    if quote_term(form).endswith("*"):
        sql = f"select coalesce(sum(doc), 0) from {table}_terms where term >= :token and term < :token || char(1114111)"
    else:
        sql = f"select coalesce(sum(doc), 0) from {table}_terms where term = :token"
    counts = [int(first_value(connection, sql, {"token": token})) for token in _tokens(connection, form)]
    return sum(counts) if all(counts) else 0


def _tokens(connection: apsw.Connection, form: str) -> list[str]:
    groups = _tokenizer(connection)(form.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False)
    return [token for group in groups for token in group]


def _tokenizer(connection: apsw.Connection) -> Any:
    return connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])
