"""A user's own sentences: code, quotations and pasted text are taken out, the rest is cut at its full stops."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memory_tencentdb_worker.text.foreign import own_words

_QUOTED_LINE = re.compile(r"^\s*(?:>|\||#!|\$ |\+\+\+|---|@@)")
_MARKUP = re.compile(r"<[/!?a-zA-Z]|-->|\]\(|[<\[({]\W*\Z")
# From such a line on, the text is somebody else's: what follows the colon is material, not a statement of the user.
_MATERIAL = re.compile(
    r"(?i)\b(?:here(?:'s| is| are)|this is|following|below|paste[ds]?|summari[sz]e|translat\w+|"
    r"proofread|review|rewrite|rephrase|"
    r"page|article|e-?mail|letter|text|transcript|log|logs|output|error|document|message|quote|story|"
    r"poem|lyrics|script|prompt|"
    r"says?|said|wrote|writes)\b[^.!?\n]*:(?!\d|//)"
    r"|(?:以下|下面|如下|这是|翻译|总结|润色|改写|校对|文章|邮件|文本|内容|日志|报错|网页|原文|他说|"
    r"她说|写道|写着)[^。！？\n]*[:：]"
)
_OPENERS = {"“": "”", "「": "」", "『": "』", "«": "»", '"': '"'}
_ABBREVIATION = re.compile(
    r"(?i)(?:\b(?:mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|no|approx|e\.g|i\.e|a\.m|p\.m|inc|ltd)|\b[A-Z])\.$"
)
_END = re.compile(r"(?<!<)[。！？；!?]+(?!\[)[”」』\"')）]*|\.+[\"')]*(?=\s|$)|;(?=\s)|\n+")


def own_sentences(text: str) -> list[str]:
    """The user's sentences in order, with their end marks. Text after an announcement such as `the article says:`
    is not his, so nothing of it comes back."""
    text = "\n".join(line for line in own_words(text).split("\n") if not _QUOTED_LINE.match(line))
    material = _MATERIAL.search(text)
    if material:
        text = text[: material.start()]
        text = text[: max((text.rfind(mark) for mark in ".!?。！？\n"), default=-1) + 1]
    said = (sentence for sentence in _cut(text) if any(char.isalnum() for char in sentence))
    return [sentence for sentence in said if not _marked_up(sentence)]


def holds_quotation(sentence: str) -> bool:
    """Whether the sentence quotes more than a name or a title: then its `I` may be somebody else."""
    for opener, closer in _OPENERS.items():
        start = sentence.find(opener)
        end = sentence.find(closer, start + 1) if start >= 0 else -1
        inside = sentence[start + 1 : end] if end > start else ""
        if re.search(r"\b(?:I|my|me|you|your)\b|[我你]", inside):
            return True
    return False


def is_chinese(sentence: str) -> bool:
    """Which rules read a sentence: the Chinese ones when its grammar is Chinese, whatever words are borrowed."""
    han = len(re.findall(r"[\u3400-\u9fff]", sentence))
    return han > 0 and not (re.search(r"\b(?:I|I'm|I’m|my|My|me)\b", sentence) and "我" not in sentence)


def _marked_up(sentence: str) -> bool:
    """A tag without its end, a link, a picture, a bracket that stays open: what is left without it is no sentence."""
    return _MARKUP.search(sentence) is not None or sentence.count("[") != sentence.count("]")


def _cut(text: str) -> Iterator[str]:
    start = 0
    for match in _END.finditer(text):
        piece = text[start : match.end()].strip()
        if match[0].startswith(".") and _ABBREVIATION.search(text[start : match.start() + 1]):
            continue
        if piece:
            yield _without_bullet(piece)
        start = match.end()
    rest = text[start:].strip()
    if rest:
        yield _without_bullet(rest)


def _without_bullet(sentence: str) -> str:
    return re.sub(r"^(?:[-*•·]|\d{1,2}[.)、])\s+", "", sentence)
