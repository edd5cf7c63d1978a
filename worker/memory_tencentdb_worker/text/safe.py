"""Remembered text is data: what makes it harmless where it stands among instructions, tags or lines of a list."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from memory_tencentdb_worker.text.lookalikes import plain_forms

_LINE_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+[ \t]*")
_BLANKS = re.compile(r"[ \t\u00a0]+")
_HIDDEN = re.compile(
    "["
    "\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f"  # controls
    "\u00ad\u200b-\u200f\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb"  # zero width and soft hyphen
    "\u061c\u202a-\u202e\u2066-\u2069"  # bidi
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # fillers that show nothing
    "\ud800-\udfff"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # format characters of rare scripts
    "\U000e0000-\U000e0fff"  # tags and further variation selectors
    "]"
)
_TAG = re.compile(  # a blank after the `<` makes a tag only for lenient readers, and then only of a bare name
    r"[<\uff1c\ufe64](?=[/\uff0f!?]|[|\uff5c][\w\u2581]|[^\W\d_]|\s*[/\uff0f!?]?\s*[^\W\d_][\w:.-]*\s*[/\uff0f]?[>\uff1e\ufe65])"
)
_TEMPLATE_MARK = re.compile(
    r"\[(/?(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS))\]", re.IGNORECASE
)
"""Some models' chat templates have brackets where others have tags."""

_COMMENT_END = re.compile(r"(--!?)[>\uff1e\ufe65]")
_TAG_START = re.compile(r"[<\uff1c\ufe64]")
_TAG_END = re.compile(r"[>\uff1e\ufe65]")
_ROLE = re.compile(
    r"[\s\W_]*(?:system|user|human|assistant|developer|tool|function|model|ai|bot"
    r"|系统|用户|助手|工具)\s*[\]\)>*_`'\"】）》]*\s*[:\uff1a\ufe55\u2236\ua789]",
    re.IGNORECASE,
)
_LIST_MARK = "·"


def one_line(text: str) -> str:
    """The text as one line of recall (CONTRACT 10.3): no breaks, no tags, nothing invisible, no role in front.

    Ordinary words stay as they are, so that the line can be found again by its text.
    """
    flat = _HIDDEN.sub("", _LINE_BREAKS.sub(" ", text))
    flat = _BLANKS.sub(" ", flat).strip()
    flat = _TEMPLATE_MARK.sub(r"(\1)", _defuse_tags(flat))
    return f"{_LIST_MARK} {flat}" if _begins_like_role(flat) else flat


def escape_sections(text: str, names: Iterable[str]) -> str:
    """Replaces each `<` that could open or close one of the named sections (CONTRACT 9) by `‹`.

    Case, blanks, full-width forms and invisible characters inside the tag make no difference.
    """
    wanted = {name.casefold() for name in names}
    if not wanted or not _TAG_START.search(text):
        return text
    longest = max(map(len, wanted))
    pieces, last = [], 0
    for found in _TAG_START.finditer(text):
        if _tag_name(text, found.end(), longest) in wanted:
            pieces.append(text[last : found.start()] + "‹")
            last = found.end()
    return "".join(pieces) + text[last:]


def indent_continuations(text: str) -> str:
    """Indents every line but the first by two spaces, so that no line of data can begin like a line of the list."""
    return "\n  ".join(text.splitlines()) if text else text


def _defuse_tags(text: str) -> str:
    """`<word`, `</`, `<!` and `<?` lose their `<` to `‹`, and the `>` that ends such a tag or a comment becomes `›`.
    `a < b` and `x -> y` stay."""
    pieces, last = [], 0
    for found in _TAG.finditer(text):
        if found.start() < last:
            continue
        pieces.append(text[last : found.start()] + "‹")
        last = found.end()
        end = _TAG_END.search(text, last, last + 200)
        if end and not _TAG_START.search(text, last, end.start()):
            pieces.append(text[last : end.start()] + "›")
            last = end.end()
    return _COMMENT_END.sub(r"\1›", "".join(pieces) + text[last:])


def _begins_like_role(text: str) -> bool:
    """Also in letters that only look like these."""
    return any(_ROLE.match(form.text) for form in plain_forms(text[:80]))


def _tag_name(text: str, start: int, longest: int) -> str:
    """The name after a `<`, read the way a lenient reader would."""
    head = _HIDDEN.sub("", text[start : start + longest + 64])
    head = unicodedata.normalize("NFKC", head).lstrip(" \t\r\n/")
    name = re.match(r"[\w.:-]+", head)
    return name.group().casefold() if name else ""
