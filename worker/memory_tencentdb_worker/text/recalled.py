"""What frames recalled memory, in one place: `recall/render` writes it, `without_recalled` takes it out again.

A host may store what it was given and hand it back as if it had been said: nothing of it may become a memory of
its own.
"""

from __future__ import annotations

import re

RECALL_HEADER = "Known from earlier conversations:"
PERSONA_HEADER = "What is known about the user:"
TOPICS_HEADER = "Topics with more detail:"
TOOL_GUIDE = (
    "More can be looked up: memory_tencentdb_memory_search finds facts (give a topic's name as `scene` to read that "
    "topic), memory_tencentdb_conversation_search finds what was said word for word. "
    "Use both together at most 3 times in one turn."
)

_NOTE = re.compile(r"\[System note:\s*The following is recalled memory context[^\]\n]{0,400}\]")
_MARKS = r"[ \t>|*+\u2022\u00b7#\"\u201c'`(\[-]{0,12}"
_LEAD = rf"{_MARKS}(?:<\w{{1,10}}>)?[ \t]{{0,12}}(?:\d{{1,3}}[.)][ \t]{{0,12}})?{_MARKS}"
_ID = r"\b(?:m|l0)_[0-9a-f]{16}\b"
_DISGUISED = re.compile(  # the same lines quoted, numbered, in a table, cut short, or turned round
    rf"^{_LEAD}(?:\d{{4}}-\d\d-\d\d[^\n]*?(?:{_ID}|\((?:m|l0)_[0-9a-f]*$)"
    r"|\d{4}-\d\d-\d\d[^\]\n]{0,6}\][ \t]*(?:the user said|the assistant said|standing rule"
    r"|told by (?:the assistant|a tool)|read in a page|until \d{4}-\d\d-\d\d):"
    rf"|{_ID}[\])]?[ \t]*[:|,\u2014-])[^\n]*(?:\n|\Z)",
    re.MULTILINE | re.ASCII,
)
_OBJECT = re.compile(rf'\{{[^{{}}]{{0,8000}}?"id"[ \t]*:[ \t]*"{_ID}"[^{{}}]{{0,40000}}\}}[ \t]*,?', re.ASCII)
_LINE = re.compile(  # what recall and search answers are made of, with the head that stands over the first of them
    rf"^(?:(?:{re.escape(RECALL_HEADER)}|Found \d{{1,6}} (?:memor(?:y|ies)|messages?):)[ \t]*\n)?"
    r"- \[\d{4}-\d\d-\d\d[^\]\n]{0,6}\] [^\n]*\((?:m|l0)_[0-9a-f]{16}(?:, [^\n]{0,900})?\)[ \t]*(?:\n|\Z)",
    re.MULTILINE | re.ASCII,
)
_STABLE_HEAD = re.compile(
    rf"(?:^{re.escape(PERSONA_HEADER)}\n(?:(?:## |- )[^\n]*\n)+\n)?"
    rf"(?:^{re.escape(TOPICS_HEADER)}\n(?:- [^\n]*\n)+\n)?\Z",
    re.MULTILINE,
)


def without_recalled(text: str) -> str:
    """The text without what recall, search and the stable part of the context are made of."""
    left = _LINE.sub("", _NOTE.sub("", _without_stable_part(text)))
    if "_" not in left and ":" not in left:
        return left
    return _DISGUISED.sub("", _OBJECT.sub("", left))


def _without_stable_part(text: str) -> str:
    """The guide to the tools ends the stable part and is nobody's own words."""
    *before, rest = text.split(TOOL_GUIDE)
    return "".join(_STABLE_HEAD.sub("", piece, count=1) for piece in before) + rest
