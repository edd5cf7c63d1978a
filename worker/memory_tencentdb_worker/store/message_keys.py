"""What ranking has to know of a message without reading its text: its words as numbers, who speaks, whether it asks.

The full-text index says which messages hold a word. This table says which words a message holds, so that a word of a
third of all messages is looked up in the few that are candidates, and a small session is read instead of the index.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable
from sys import byteorder
from typing import Any

import apsw

from memory_tencentdb_worker.models import NewMessage
from memory_tencentdb_worker.text.segment import index_text
from memory_tencentdb_worker.text.speakers import speaker_of

PLACE_BITS = 24
"""A place (`message_places`) is the number of the thread, then so many bits for the number inside the thread."""

WORD_BYTES = 4

_QUESTION_MARKS = ("?", "\uff1f")


def write_key(connection: apsw.Connection, seq: int, message: NewMessage, terms: str) -> None:
    """`terms` is the index text of the message."""
    connection.execute(
        "insert into message_keys(seq, role, sent_at, speaker, asks, words) values (?, ?, ?, ?, ?, ?)",
        (
            seq,
            message.role,
            message.sent_at,
            speaker_of(message.text),
            asks(message.text),
            pack_words(tokens_of(connection, terms)),
        ),
    )


def asks(text: str) -> int:
    """1 when it holds a question."""
    return int(any(mark in text for mark in _QUESTION_MARKS))


def tokens_of(connection: apsw.Connection, terms: str) -> list[str]:
    """The words as the full-text index has them: without accents, cut to their stems, in order."""
    groups = _tokenizer(connection)(terms.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False)
    return [token for group in groups for token in group]


def word_number(token: str) -> int:
    """Two words share a number once in four thousand million pairs: one hit too many, never one too few."""
    return zlib.crc32(token.encode())


def pack_words(tokens: Iterable[str]) -> bytes:
    """Four bytes a word, the least significant first, in the order of the text."""
    numbers = array("I", map(word_number, tokens))
    if byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def offer_functions(connection: apsw.Connection) -> None:
    """What the migration that fills the table calls for each message."""

    def packed_words(*values: Any) -> bytes:
        return pack_words(tokens_of(connection, index_text(values[0])))

    connection.create_scalar_function("packed_words", packed_words, 1, deterministic=True)
    connection.create_scalar_function("speaker_of", lambda *values: speaker_of(values[0]), 1, deterministic=True)
    connection.create_scalar_function("asks", lambda *values: asks(values[0]), 1, deterministic=True)


def _tokenizer(connection: apsw.Connection) -> Any:
    return connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])
