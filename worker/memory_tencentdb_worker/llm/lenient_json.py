"""Reads one JSON value that a model wrote by hand.

Strict JSON is tried first. The lenient reader then accepts what models get wrong without changing the meaning:
trailing commas, raw control characters in strings, single-quoted strings, bare quotes inside a string, Python's
None/True/False, NaN and Infinity (read as null). It never invents an end: text that stops inside a value is
`UnfinishedValueError`, anything else that cannot be read is `MalformedValueError`.
"""

from __future__ import annotations

import json
import re

MAX_DEPTH = 64

_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_WORD = re.compile(r"[-+]?[A-Za-z]+")
_WORDS: dict[str, object] = {
    "true": True,
    "false": False,
    "null": None,
    "none": None,
    "nan": None,
    "infinity": None,
    "-infinity": None,
    "+infinity": None,
    "undefined": None,
}
_ESCAPE = re.compile(r'\\(?:u[0-9a-fA-F]{4}|.)|"', re.S)

# What must follow a quote for it to be the end of the string; else it is a bare quote inside the text.
_AFTER_KEY = re.compile(r"\s*:")
_AFTER_MEMBER = re.compile(r"""\s*(?:\}|,\s*(?:["'][^"'\\\n]*["']\s*:|\}|\Z)|\Z)""")
_AFTER_ITEM = re.compile(r"""\s*(?:\]|,\s*(?:["'\[{\d+\-tfnNTFI]|\]|\Z)|\Z)""")


class MalformedValueError(ValueError):
    """No JSON value at this place. `at` is where reading failed."""

    def __init__(self, at: int) -> None:
        super().__init__(f"not JSON at character {at}")
        self.at = at


class UnfinishedValueError(MalformedValueError):
    """The text ends inside the value."""


def read_value(text: str, start: int) -> tuple[object, int]:
    """The value that begins at `start`, and the position after it. Raises MalformedValueError or its subclass."""
    try:
        value, end = _STRICT.raw_decode(text, start)
    except (json.JSONDecodeError, RecursionError):
        return _Reader(text).value(start, _AFTER_ITEM, 0)
    return value, end


def _no_constant(_: str) -> None:
    return None


_STRICT = json.JSONDecoder(strict=False, parse_constant=_no_constant)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, at: int, after: re.Pattern[str], depth: int) -> tuple[object, int]:
        at = self._skip(at)
        char = self._text[at]
        if depth > MAX_DEPTH:
            raise MalformedValueError(at)
        if char == "{":
            return self._object(at, depth)
        if char == "[":
            return self._array(at, depth)
        if char in "\"'":
            return self._string(at, after)
        return self._scalar(at)

    def _object(self, at: int, depth: int) -> tuple[dict[str, object], int]:
        members: dict[str, object] = {}
        at = self._skip(at + 1)
        while self._text[at] != "}":
            if self._text[at] not in "\"'":
                raise MalformedValueError(at)
            key, at = self._string(at, _AFTER_KEY)
            at = self._skip(at)
            if self._text[at] != ":":
                raise MalformedValueError(at)
            members[key], at = self.value(at + 1, _AFTER_MEMBER, depth + 1)
            at = self._next(at, "}")
        return members, at + 1

    def _array(self, at: int, depth: int) -> tuple[list[object], int]:
        items: list[object] = []
        at = self._skip(at + 1)
        while self._text[at] != "]":
            item, at = self.value(at, _AFTER_ITEM, depth + 1)
            items.append(item)
            at = self._next(at, "]")
        return items, at + 1

    def _next(self, at: int, closer: str) -> int:
        """Past a comma, if there is one: the place of the next element or of the closing bracket."""
        at = self._skip(at)
        if self._text[at] == ",":
            return self._skip(at + 1)
        if self._text[at] != closer:
            raise MalformedValueError(at)
        return at

    def _string(self, at: int, after: re.Pattern[str]) -> tuple[str, int]:
        quote, begin = self._text[at], at + 1
        at = begin
        while at < len(self._text):
            char = self._text[at]
            if char == "\\":
                at += 2
                continue
            if char == quote and after.match(self._text, at + 1):
                return _unescape(self._text[begin:at]), at + 1
            at += 1
        raise UnfinishedValueError(len(self._text))

    def _scalar(self, at: int) -> tuple[object, int]:
        number = _NUMBER.match(self._text, at)
        if number:
            digits = number.group()
            return (int(digits) if digits.lstrip("+-").isdigit() else float(digits)), number.end()
        word = _WORD.match(self._text, at)
        if word and word.group().lower() in _WORDS:
            return _WORDS[word.group().lower()], word.end()
        raise MalformedValueError(at)

    def _skip(self, at: int) -> int:
        space = _SPACE.match(self._text, at)
        at = space.end() if space else at
        if at >= len(self._text):
            raise UnfinishedValueError(len(self._text))
        return at


def _unescape(raw: str) -> str:
    text: str = json.loads(f'"{_ESCAPE.sub(_sound_escape, raw)}"', strict=False)
    return text


def _sound_escape(match: re.Match[str]) -> str:
    found = match.group()
    if found == '"':
        return '\\"'
    if len(found) == 6 or found[1] in '"\\/bfnrt':
        return found
    if found[1] == "'":
        return "'"
    return "\\\\" + found[1:]
