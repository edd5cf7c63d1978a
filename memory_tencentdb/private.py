"""`<private>...</private>` in a message: the span is dropped before anything of it touches a disk or a log."""

from __future__ import annotations

import re

_TAG = re.compile(r"<\s{0,4}(?P<close>/?)\s{0,4}private(?:\s[^<>]{0,200})?>", re.IGNORECASE)
MARK = "[private]"


def without_private(text: str) -> str:
    """Each span becomes a mark. One that is never closed goes to the end of the text: in doubt it is private. A lone
    close tag is somebody's words."""
    if "private" not in text and "private" not in text.lower():
        return text
    kept: list[str] = []
    depth = at = 0
    for tag in _TAG.finditer(text):
        if not tag["close"]:
            if depth == 0:
                kept += [text[at : tag.start()], MARK]
            depth += 1
        elif depth:
            depth -= 1
            at = tag.end()
    if depth:
        return "".join(kept)
    return "".join([*kept, text[at:]]) if kept else text
