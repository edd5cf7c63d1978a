"""Finds the JSON answer in what a model wrote: around it stand fences, chatter and reasoning.

Nothing is lost in silence: a value that is broken or cut off makes the whole answer unusable (LLMContent), so that the
caller asks again or parks it, instead of taking a part for the whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_tencentdb_worker.errors import LLMContent
from memory_tencentdb_worker.llm.lenient_json import MalformedValueError, UnfinishedValueError, read_value

_REASONING = r"think|thinking|thought|thoughts|analysis|reasoning|reflection|scratchpad"
_TAG = re.compile(rf"<(?P<close>/)?(?P<name>{_REASONING})\b[^<>]*>", re.I)
_STOP = re.compile(rf"[\[{{]|</?(?:{_REASONING})\b[^<>]*>", re.I)
_FIRST_TOKEN = re.compile(r"[\[{]\s*")
_BETWEEN_OBJECTS = re.compile(r"[\s,]*\Z")
_TAIL = re.compile(r"\s*(?:`{3,}|~{3,})?\s*\Z")
MAX_BROKEN_STARTS = 200  # a bound on the work for text that is all brackets
_UNKNOWN, _BARE, _EMPTY, _ASKED = 0, 1, 2, 3  # how well a value fits what was asked for


@dataclass(frozen=True)
class _Found:
    start: int
    end: int
    value: object


@dataclass
class _Scan:
    """The JSON values at the top level of an answer, outside reasoning."""

    values: list[_Found] = field(default_factory=list)
    broken_at: int | None = None  # the last value that could not be read
    unfinished: bool = False
    reasoning: bool = False  # a draft stood there


def parse_json_answer(text: str, keys: Sequence[str], *, truncated: bool = False) -> object:
    """The answer: what stands under the first of `keys` that an object has, else the array or object itself.

    With no `keys` the whole value comes back unopened: right for an answer of several fields. Objects that follow each
    other (JSON lines) come back as one list. Of several values the best fitting one is taken, an empty one last, and
    of equals the last one: models correct themselves downwards, an example or a draft stands before the answer.
    Text before a closing reasoning tag is a draft and never the answer, whether or not the tag was opened.
    `truncated`: the model hit its token limit; only a value that ends the text is trusted then.

    Raises LLMContent with code "empty", "only_reasoning", "truncated", "malformed" or "no_json".
    """
    if not text.strip():
        raise LLMContent("the model answered with no text", raw=text, code="empty")
    scan = _scan(text)
    best = _best(_joined(scan.values, text, keys), keys)
    if best is None or (scan.broken_at is not None and scan.broken_at > best.start):
        raise _unusable(text, scan, truncated)
    if truncated and not _TAIL.match(text, best.end):
        raise LLMContent("the answer was cut off at the token limit", raw=text, code="truncated")
    return _opened(best.value, keys)


# ------------------------------------------------------------------------------------------------------ scanning


def _scan(text: str) -> _Scan:
    scan, at, starts = _Scan(), 0, 0
    while (stop := _STOP.search(text, at)) is not None and starts < MAX_BROKEN_STARTS:
        tag = _TAG.match(text, stop.start())
        if tag and tag.group("close"):
            at = tag.end()
            scan.values.clear()
            scan.broken_at, scan.unfinished, scan.reasoning = None, False, True
            continue
        if tag:
            scan.reasoning = True
            closing = re.compile(rf"</{tag.group('name')}\s*>", re.I).search(text, tag.end())
            if closing is None:
                break
            at = closing.start()
            continue
        try:
            value, end = read_value(text, stop.start())
        except MalformedValueError as problem:
            starts += 1
            at = _after_broken(text, stop.start(), problem, scan)
            continue
        scan.values.append(_Found(stop.start(), end, value))
        at = end
    return scan


def _after_broken(text: str, start: int, problem: MalformedValueError, scan: _Scan) -> int:
    """Where scanning goes on. Parts of a broken value are not answers of their own, so it is skipped as a whole; a
    bracket that opens no value at all ("[see above]") is prose."""
    token = _FIRST_TOKEN.match(text, start)
    if token and problem.at <= token.end() and not isinstance(problem, UnfinishedValueError):
        return start + 1
    closing = next((tag for tag in _TAG.finditer(text, start) if tag.group("close")), None)
    if closing:
        return closing.start()
    scan.broken_at, scan.unfinished = start, isinstance(problem, UnfinishedValueError)
    return _end_by_brackets(text, start)


def _end_by_brackets(text: str, start: int) -> int:
    depth, quoted, at = 0, False, start
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == '"':
            quoted = not quoted
        elif not quoted and char in "[{":
            depth += 1
        elif not quoted and char in "]}":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return len(text)


# ------------------------------------------------------------------------------------------------------ choosing


def _joined(values: list[_Found], text: str, keys: Sequence[str]) -> list[_Found]:
    """Bare objects with nothing but space between them are JSON lines: one list."""
    joined: list[_Found] = []
    for found in values:
        last = joined[-1] if joined else None
        if (
            last is not None
            and isinstance(found.value, dict)
            and _fit(found.value, keys) == _BARE
            and _BETWEEN_OBJECTS.match(text[last.end : found.start])
            and (isinstance(last.value, _Lines) or (isinstance(last.value, dict) and _fit(last.value, keys) == _BARE))
        ):
            lines = _Lines(last.value if isinstance(last.value, _Lines) else [last.value])
            lines.append(found.value)
            joined[-1] = _Found(last.start, found.end, lines)
        else:
            joined.append(found)
    return joined


class _Lines(list[object]):
    """Objects that were written one after the other, without an array around them."""


def _best(values: list[_Found], keys: Sequence[str]) -> _Found | None:
    best: _Found | None = None
    for found in values:
        fit = _fit(found.value, keys)
        if fit != _UNKNOWN and (best is None or fit >= _fit(best.value, keys)):
            best = found
    return best


def _fit(value: object, keys: Sequence[str]) -> int:
    inner = _opened(value, keys)
    if inner is not value:
        return _ASKED if inner else _EMPTY
    if isinstance(value, list):
        if not value:
            return _EMPTY
        return _ASKED if any(isinstance(item, dict) for item in value) else _UNKNOWN
    if isinstance(value, dict):
        return _BARE if value and keys else _ASKED if value else _UNKNOWN
    return _UNKNOWN


def _opened(value: object, keys: Sequence[str]) -> object:
    """What the wrapper holds; a lone outer object around the wrapper ({"result": {"scenes": []}}) is opened too."""
    if isinstance(value, dict):
        for key in keys:
            if key in value:
                inner: object = value[key]
                return inner
        if keys and len(value) == 1:
            only = next(iter(value.values()))
            inner = _opened(only, keys)
            return value if inner is only else inner
    return list(value) if isinstance(value, _Lines) else value


def _unusable(text: str, scan: _Scan, truncated: bool) -> LLMContent:
    if truncated or scan.unfinished:
        return LLMContent("the answer was cut off", raw=text, code="truncated")
    if scan.broken_at is not None:
        return LLMContent("the answer is not valid JSON", raw=text, code="malformed")
    if scan.reasoning:
        return LLMContent("the answer holds reasoning only", raw=text, code="only_reasoning")
    return LLMContent("the answer holds no JSON", raw=text, code="no_json")
