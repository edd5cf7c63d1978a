"""Sentences that look like an attempt to plant something: they tell an assistant to drop its rules, to become another,
to give secrets away, or they pretend to be the host's own frame.

Talk about such sentences is no attempt: a quotation, a report ("told me to ignore the earlier rules"), a correction of
one's own wish ("ignore my earlier request about the font"). What only a foreign text would say is looked for
there only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memory_tencentdb_worker.text.foreign import Span, foreign_spans, merged
from memory_tencentdb_worker.text.lookalikes import Plain, plain_forms
from memory_tencentdb_worker.text.suspicion_rules import EVERYWHERE, FOREIGN, FRAME, IMPERSONAL, OVERRIDE, ROLE

_TAKEOVERS = (OVERRIDE, ROLE, FRAME)
"""What follows one of these to the end of the message is said in its name."""


def _compiled(rules: tuple[tuple[str, str], ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Runs of blanks are bounded: the text may be hostile."""
    bounded = ((reason, rule.replace(r"\s*", r"\s{0,9}").replace(r"\s+", r"\s{1,9}")) for reason, rule in rules)
    return tuple((reason, re.compile(rule)) for reason, rule in bounded)


_EVERYWHERE_RULES, _IMPERSONAL_RULES, _FOREIGN_RULES = map(_compiled, (EVERYWHERE, IMPERSONAL, FOREIGN))
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|my|me|we|our|us)\b|[我咱]")
_SENTENCE_END = re.compile(r"[。！？!?\n]|\.(?=\s|$)")
_LEAD = " \t\n.!?:;,。！？：；，、-"
"""What a match may begin with although it belongs to the sentence before."""

_MENTION = re.compile(
    r"`[^`\n]{1,400}`|“[^“”\n]{1,400}”|「[^「」\n]{1,400}」|\"[^\"\n]{1,400}\""
    r"|(?<!\w)'[^'\n]{3,400}'(?!\w)|‘[^’\n]{1,400}’"
)


@dataclass(frozen=True)
class Suspicion:
    reason: str
    span: Span
    """The sentences it was found in, in the original text; of a takeover, everything behind it too."""

    match: Span


def suspicions(text: str, *, foreign: bool) -> list[Suspicion]:
    """`foreign`: the whole text is a page's, a tool's or another program's. Otherwise it is a person's message, of
    which parts may be foreign."""
    outside = [(0, len(text))] if foreign else foreign_spans(text)
    found: list[Suspicion] = []
    for plain in plain_forms(text):
        for reason, start, end in _matches(plain, outside):
            begin, stop = _sentences(text, start, end)
            found.append(Suspicion(reason, (begin, len(text) if reason in _TAKEOVERS else stop), (start, end)))
    return list(dict.fromkeys(found))


def reasons_of(found: list[Suspicion]) -> tuple[str, ...]:
    return tuple(sorted({one.reason for one in found}))


def held_spans(found: list[Suspicion]) -> list[Span]:
    return merged(one.span for one in found)


def _matches(plain: Plain, outside: list[Span]) -> list[tuple[str, int, int]]:
    result = []
    mentions = [found.span() for found in _MENTION.finditer(plain.text)]
    for rules, only_foreign, impersonal in (
        (_EVERYWHERE_RULES, False, False),
        (_IMPERSONAL_RULES, False, True),
        (_FOREIGN_RULES, True, False),
    ):
        for reason, pattern in rules:
            for match in pattern.finditer(plain.text):
                lead = len(match[0]) - len(match[0].lstrip(_LEAD))
                start, end = plain.original(match.start() + lead), plain.original(match.end() - 1) + 1
                inside = any(low < end and start < high for low, high in outside)
                if not inside and (only_foreign or _only_mentioned(match, mentions)):
                    continue
                if not inside and impersonal and _FIRST_PERSON.search(_around(plain.text, match)):
                    continue
                result.append((reason, start, end))
    return result


def _only_mentioned(match: re.Match[str], mentions: list[Span]) -> bool:
    """Quoted in a sentence of one's own. The match may begin with the mark before the quotation."""
    return any(low <= match.start() + 2 and match.end() <= high + 1 for low, high in mentions)


def _around(text: str, match: re.Match[str]) -> str:
    start, end = _sentences(text, match.start(), match.end())
    return text[start:end]


def _sentences(text: str, start: int, end: int) -> Span:
    """From the beginning of the sentence in which it begins to the end of the one in which it ends."""
    first = max((found.end() for found in _SENTENCE_END.finditer(text, max(0, start - 600), start)), default=None)
    begin = max(0, start - 600) if first is None else first
    last = _SENTENCE_END.search(text, max(end - 1, start))
    return begin, len(text) if last is None else last.end()
