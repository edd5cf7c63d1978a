"""Names before messages (`Ann:`, `[Ann Lee]:`): how hosts mark who speaks where several people share a session."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory_tencentdb_worker.text.segment import fold

_NAME = r"[^\W\d_][\w.'\u2019-]{0,30}"
_SPEAKER = re.compile(rf"\s*\[?({_NAME}(?: {_NAME}){{0,2}})\]?\s?[:\uff1a]\s*")
_IN_GROUP = re.compile(rf"\s*\[({_NAME}(?: {_NAME}){{0,2}})\][:\uff1a]?\s+(?=\S)")


def speaker_of(text: str) -> str:
    """The name a message begins with, folded; "" when it begins with none."""
    found = _SPEAKER.match(text)
    return fold(found[1]) if found else ""


def group_speaker(text: str) -> tuple[str, str]:
    """Who speaks in a group, as hosts write it (`[Ann Lee] I live here.`), and what was said; ("", text) without."""
    found = _IN_GROUP.match(text)
    return (found[1], text[found.end() :]) if found else ("", text)


def without_speaker(text: str) -> str:
    """What was said. A text that is nothing but a name stays."""
    found = _SPEAKER.match(text)
    return text[found.end() :] or text if found else text


def without_names(text: str, names: Iterable[str]) -> str:
    """Names taken out, also possessive ones; the text as it is when nothing would be left."""
    parts = {part for name in names for part in (name, name.split(" ", 1)[0]) if part}
    longest_first = sorted(parts, key=len, reverse=True)
    if not longest_first:
        return text
    named = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?:['\u2019]s)?(?!\w)", re.IGNORECASE)
    left = " ".join(named.sub(" ", text).split())
    return left if re.search(r"\w", left) else text
