"""Text to search terms: what the full-text index stores, and the query that finds it again.

The index column is plain text for FTS5's `porter unicode61 remove_diacritics 2`, so any SQLite can read it. What
unicode61 cannot do is done here: Chinese is cut into words (rjieba) and pairs of characters, Japanese and Korean into
pairs, and Latin words glued to them are set free. What unicode61 cuts itself (`src/main.py`, `user_id`) stays whole
here: a quoted phrase then finds the whole, and each part is a term of its own.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from memory_tencentdb_worker.text.stopwords import STOP_WORDS

TERM_LIMIT = 200
"""Distinct terms of one query; the store leaves out the frequent ones further (packages.md 2a)."""

TERM_LENGTH_LIMIT = 120
"""A longer unbroken run (a key, base64) is indexed by its beginning; a longer path by its parts."""

QUERY_LIMIT_CHARS = 100_000

ASKED_CHARS = 4_000
"""Of a question to recall or search; some 10 ms of segmentation at the worst."""

_SHORT_RUN = 8
"""Kana and Hangul runs up to this length are one term too, so that a whole word ranks before its parts."""

_HAN = r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = r"\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_HANGUL = r"\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"
_CJK = _HAN + _KANA + _HANGUL
_MARKS = (  # vowel signs and accents, which `\w` does not hold
    r"\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0903\u093a-\u0dff"
    r"\u0e31-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ebc\u0ec8-\u0ece\u0f18-\u0fbc\u102b-\u109d\u17b4-\u17d3\u200c\u200d"
)
_WORD = rf"[^\W_{_CJK}][^\W{_CJK}]*"
_JOINT = rf"[{_MARKS}.\-@/:+#&'\u2019\\]"
_RUN = re.compile(
    rf"(?P<han>[{_HAN}]+)|(?P<kana>[{_KANA}]+)|(?P<hangul>[{_HANGUL}]+)"
    rf"|(?P<word>{_WORD}(?:{_JOINT}{{1,3}}[^\W{_CJK}]+)*[{_MARKS}]*(?:\+\+|\#)?)"
)
_CJK_START = re.compile(f"[{_CJK}]")
_PARTS = re.compile(rf"(?:[^\W_]|[{_MARKS}])+")
_CAMEL = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+|[A-Z]|\d+")
_POSSESSIVE = re.compile(r"['\u2019][sS]$")
_SIGNS = {"++": "plusplus", "#": "sharp"}
"""unicode61 takes C++ and C# for C."""

_SHORT_PIECE = 3
"""Between stop words, up to so many Chinese characters are asked for one by one too: 养猫 (to keep a cat) finds a text
that says 猫 (cat). On MemoryBank-cn this moved recall@5 from 72.5 to 74.5 and recall@20 from 92.2 to 93.1 (51
questions, FTS5 alone); doing it for longer pieces moved nothing."""

Cut = Callable[[str], list[str]]


class _Segmenter(NamedTuple):
    words: Cut  # each character once
    search: Cut  # also the words inside of words


def index_text(text: str) -> str:
    """The terms of `text`, joined by blanks: folded (NFKC, lower case), in order, repeated ones kept."""
    return " ".join(term for kind, run in _runs(text) for term in _indexed(kind, run))


def query_terms(text: str) -> list[str]:
    """Distinct terms in order, at most 200; [] when the text holds no letter or digit.

    Stop words are left out unless nothing else is left.
    """
    text = text[:QUERY_LIMIT_CHARS]
    telling: dict[str, None] = {}
    silent: dict[str, None] = {}
    for kind, run in _runs(text):
        for term in _asked(kind, run):
            telling[term] = None
            if len(telling) >= TERM_LIMIT:
                return list(telling)
        if not telling and len(silent) < TERM_LIMIT:
            silent.update(dict.fromkeys(_asked_in_full(kind, run)))
    return list(telling or silent)[:TERM_LIMIT]


def shorten_query(text: str) -> str:
    """The beginning and the end of a long question, where it says what it is about: the rest, usually something pasted,
    would cost more time than a recall has."""
    if len(text) <= ASKED_CHARS:
        return text
    return f"{text[: ASKED_CHARS // 2]}\n{text[-ASKED_CHARS // 2 :]}"


def match_expression(text: str) -> str | None:
    """An FTS5 MATCH string that any of the terms satisfies; safe for every text. None: there is nothing to find."""
    return match_terms(query_terms(text))


def match_terms(terms: Sequence[str]) -> str | None:
    """The MATCH string over these terms. Each is a quoted phrase, so no term can act as an operator or a column."""
    return " OR ".join(map(quote_term, terms)) if terms else None


def quote_term(term: str) -> str:
    """One term as FTS5 reads it. A single CJK character is asked for as a prefix: the index holds it in pairs."""
    quoted = '"' + term.replace('"', '""') + '"'
    return quoted + "*" if len(term) == 1 and _CJK_START.match(term) else quoted


def segmenter_state() -> str:
    """ "rjieba", or "bigrams" where rjieba cannot be loaded: Chinese is found then too, but ranked less well."""
    return "bigrams" if _segmenter() is None else "rjieba"


def fold(text: str) -> str:
    """The form in which texts are compared: NFKC, case folded."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _runs(text: str) -> Iterator[tuple[str, str]]:
    """Stretches of one script, normalised but with their case, in order."""
    for found in _RUN.finditer(unicodedata.normalize("NFKC", text)):
        yield str(found.lastgroup), found.group()


def _indexed(kind: str, run: str) -> Iterator[str]:
    if kind == "word":
        yield from _word_forms(run)
        yield from _camel_parts(run)
        return
    words = _short_runs(run) if kind != "han" else [word for word in _cut_search(run) if len(word) > 1]
    yield from words
    known = set(words)
    yield from (pair for pair in _pairs(run) if pair not in known)
    yield run[-1]  # every other character begins a pair, where the prefix search finds it


def _asked(kind: str, run: str) -> list[str]:
    """The telling terms of a run in a query."""
    if kind == "word":
        forms = list(_word_forms(run))
        terms = [form for form in forms if form not in STOP_WORDS]
        parts = [part for part in _query_parts(forms[0]) if part not in STOP_WORDS]
        return terms + parts if terms else []
    if kind != "han":
        return [term for term in _asked_in_full(kind, run) if term not in STOP_WORDS]
    pieces = _telling_pieces(run)
    short = [char for piece in pieces if len(piece) <= _SHORT_PIECE for char in piece]
    terms = _cut_search(run) + [pair for piece in pieces for pair in _pairs(piece)] + short
    return [term for term in terms if term not in STOP_WORDS]


def _asked_in_full(kind: str, run: str) -> list[str]:
    """All terms of a run, for a query of nothing but stop words."""
    if kind == "word":
        return list(_word_forms(run))
    words = _cut_search(run) if kind == "han" else _short_runs(run)
    return (words + _pairs(run)) or [run]


def _telling_pieces(run: str) -> list[str]:
    """A Chinese run without its stop words, so that no pair is made of them."""
    segmenter = _segmenter()
    if segmenter is None:
        return [run]
    pieces = [""]
    for word in segmenter.words(run):
        if word in STOP_WORDS:
            pieces.append("")
        else:
            pieces[-1] += word
    return [piece for piece in pieces if piece]


def _word_forms(run: str) -> Iterator[str]:
    """The word as it stands (long ones in parts), then without its joints: `e-mail` and `user_id` as one word."""
    word = fold(_POSSESSIVE.sub("", run)).replace("\u2019", "'")
    parts = [part[:TERM_LENGTH_LIMIT] for part in _PARTS.findall(word)]
    if len(word) > TERM_LENGTH_LIMIT:
        yield from parts
        return
    yield word
    for sign, name in _SIGNS.items():
        if word.endswith(sign):
            yield word[: -len(sign)] + name
    if 1 < len(parts) <= 4 and not any(sign in word for sign in "./@:"):
        yield "".join(parts)


def _camel_parts(run: str) -> list[str]:
    """`getUserName` is found by `user` too."""
    if run.islower() or run.isupper() or not run.isascii() or len(run) > TERM_LENGTH_LIMIT:
        return []
    parts = [part for piece in _PARTS.findall(run) for part in _split_camel(piece)]
    return [part.lower() for part in parts]


def _split_camel(piece: str) -> list[str]:
    parts = _CAMEL.findall(piece)
    return parts if len(parts) > 1 and any(part.islower() or part.istitle() for part in parts) else []


def _query_parts(word: str) -> list[str]:
    """The parts of a compound that say something by themselves: not the numbers of a version, not one letter."""
    parts = _PARTS.findall(word)
    if len(parts) < 2 or not any(char.isalpha() for char in word):
        return []
    return [part for part in parts if len(part) > 2 or (len(part) == 2 and not part.isdigit())]


def _short_runs(run: str) -> list[str]:
    return [run] if len(run) <= _SHORT_RUN else []


def _pairs(run: str) -> list[str]:
    return [run[start : start + 2] for start in range(len(run) - 1)]


def _cut_search(run: str) -> list[str]:
    if len(run) == 1:
        return [run]
    segmenter = _segmenter()
    return segmenter.search(run) if segmenter else []


@functools.cache
def _segmenter() -> _Segmenter | None:
    """Loaded at the first Chinese text: the dictionary costs 150 ms and 80 MB, which an idle worker need not pay."""
    try:
        import rjieba
    except ImportError:  # no wheel for this machine: pairs of characters serve alone
        return None
    return _Segmenter(words=rjieba.cut, search=rjieba.cut_for_search)
