"""From what the host hands over to what is worth remembering: host and recall scaffolding goes, the rest is verbatim.

A message is never dropped or shortened because it looks like an instruction: what a person says is data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from memory_tencentdb.private import MARK as PRIVATE
from memory_tencentdb.private import without_private
from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.models import Role
from memory_tencentdb_worker.text.recalled import without_recalled

IMAGE = "[image]"
ATTACHMENT = "[attachment]"

INJECTED_BLOCKS = (
    "memory-context",
    "relevant-memories",
    "user-persona",
    "relevant-scenes",
    "scene-navigation",
    "memory-tools-guide",
    "current_task_context",
    "history_task_context",
)
"""The sections that the host and memory providers put around recalled text."""

_BLOCK_TAG = re.compile(
    rf"(?<!`)<\s{{0,4}}(?P<close>/?)\s{{0,4}}(?P<name>{'|'.join(INJECTED_BLOCKS)})(?:\s[^<>]{{0,200}})?>", re.IGNORECASE
)
_HOST_METADATA = re.compile(
    r"^(?:Conversation info|Sender|Thread starter|Replied message|Forwarded message context"
    r"|Chat history since last reply)"
    r" \(untrusted[^)\n]{0,80}\):[ \t]*\n```json\n(?:(?!```)[^\n]*\n){0,400}?```[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)
_REPLY_TAG = re.compile(r"\A\s*\[\[\s?reply_to[^\]\n]{0,80}\]\][ \t]*")
_BASE64 = r"base64,[A-Za-z0-9+/=_%-]*(?:\n[A-Za-z0-9+/=_-]{40,})*"
_DATA_IMAGE = re.compile(rf"data:image/[\w.+-]{{1,80}}(?:;[\w=.+-]{{1,80}}){{0,4}};{_BASE64}", re.IGNORECASE)
_DATA_FILE = re.compile(
    r"data:(?:application|audio|video|font)/[\w.+-]{1,80}(?:;[\w=.+-]{1,80}){0,4};base64,[A-Za-z0-9+/=_%-]{256,}",
    re.IGNORECASE,
)
_INVISIBLE = re.compile("[\u0000\ud800-\udfff\U000e0000-\U000e007f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""NUL (SQLite counts wrong), lone surrogates (no UTF-8), tag characters and bidi controls (traps M7, B53, B99).
Joiners, variation selectors and an inner BOM carry meaning and stay."""

_HOST_NOTE = re.compile(  # whole lines that a host puts before, or in place of, what was said
    r"\A(?:A new session was started via /(?:new|reset)(?: or /(?:new|reset))?(?:\.[^\n]*)?"
    r"|\u2705[ \t]*New session started(?:[ \t]*[\u00b7.!][^\n]*)?"
    r"|Pre-compaction memory flush(?:[.:!][ \t]*(?:Store [^\n]*)?)?"
    r")[ \t]*(?:\nCurrent time: [^\n]*)?(?:\n|\Z)"
)
_BOOKKEEPING = frozenset({"(session bootstrap)", "NO_REPLY", "HEARTBEAT_OK"})
_HOST_COMMANDS = frozenset(
    f"/{word}"
    for word in (
        *("approve", "branch", "clear", "commands", "compact", "compress", "deny", "exit", "fork", "help", "new"),
        *("quit", "reset", "restart", "resume", "retry", "rollback", "save", "sessions", "start", "status", "stop"),
        *("undo", "usage", "verbose", "whoami", "yolo"),
    )
)
"""Alone in a message they steer the host. Any other word behind a slash may be a path, and is kept."""

_HEARTBEAT = re.compile(r"HEARTBEAT_OK\b")
_NOTHING_SAID = frozenset({"[interrupted]", "[request interrupted by user]", "(empty)", "(no response)"})
_PLACEHOLDERS = re.compile(re.escape(IMAGE) + "|" + re.escape(ATTACHMENT) + r"|\[\d+ images?\]")
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_IMAGE_PARTS = frozenset({"image", "image_url", "input_image"})
_WRAPPERS_LIMIT = 4


def flatten_content(content: object) -> str:
    """The text of a host's content: a string, a list of parts, or either in a wrapper.

    Text parts are joined by line feeds, an image part is "[image]", parts of other kinds are left out, None is "".
    Raises InvalidInput for anything else.
    """
    for _ in range(_WRAPPERS_LIMIT):
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        if isinstance(content, Mapping):
            content = _unwrap(content)
        elif isinstance(content, Sequence) and not isinstance(content, bytes | bytearray | memoryview):
            return "\n".join(part for part in map(_part_text, content) if part is not None)
        else:
            break
    raise InvalidInput(f"content must be a text or a list of parts, not {type(content).__name__}", code="bad_content")


def clean_text(text: str, role: Role) -> str:
    """What of a message is stored; "" when nothing of it is worth storing."""
    cleaned = text.replace("\r\n", "\n").replace("\r", "\n")
    cleaned = without_private(without_invisible(cleaned))
    cleaned = _without_blocks(cleaned)
    cleaned = without_recalled(cleaned)
    cleaned = _REPLY_TAG.sub("", _HOST_METADATA.sub("", cleaned))
    cleaned = _DATA_FILE.sub(ATTACHMENT, _DATA_IMAGE.sub(IMAGE, cleaned))
    cleaned = _HOST_NOTE.sub("", cleaned.removeprefix("\ufeff").strip()).strip()
    return "" if cleaned == PRIVATE or _is_bookkeeping(cleaned, role) else cleaned


def without_invisible(text: str) -> str:
    return _INVISIBLE.sub("", text)


def worth_extracting(text: str, role: Role) -> bool:
    """Whether a cleaned message can hold a fact: some word is in it, and it is no sign of life of the host."""
    bare = _PLACEHOLDERS.sub("", text).strip()
    if bare.casefold() in _NOTHING_SAID or _HEARTBEAT.match(bare) or _is_bookkeeping(bare, role):
        return False
    return any(char.isalnum() for char in bare)


def _is_bookkeeping(text: str, role: Role) -> bool:
    return text in _BOOKKEEPING or (role is Role.USER and text.lower() in _HOST_COMMANDS)


def _unwrap(wrapper: Mapping[object, object]) -> object:
    if "message" in wrapper:
        return wrapper["message"]
    return wrapper.get("content", [wrapper])


def _part_text(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return None
    kind = part.get("type", "text")
    if kind in _IMAGE_PARTS:
        return IMAGE
    text = part.get("text")
    return text if kind in _TEXT_PARTS and isinstance(text, str) else None


def _without_blocks(text: str) -> str:
    if "<" not in text:
        return text
    pieces, last = [], 0
    for start, end in _blocks(text):
        pieces.append(text[last:start])
        last = end
    return "".join(pieces) + text[last:] if last else text


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Spans of whole injected blocks, one inside another counted once. Linear: the text may be hostile."""
    tags = list(_BLOCK_TAG.finditer(text))
    last_close = {_name(tag): number for number, tag in enumerate(tags) if tag["close"]}
    number = 0
    while number < len(tags):
        tag = tags[number]
        final = last_close.get(_name(tag), -1)
        if tag["close"] or final < number:
            number += 1  # a lone tag is somebody's words
            continue
        ending = _matching_close(tags, number, final)
        yield tag.start(), tags[ending].end()
        number = ending + 1


def _matching_close(tags: list[re.Match[str]], opening: int, final: int) -> int:
    """The close tag that balances `opening`; the final one of that name when none does."""
    name, depth = _name(tags[opening]), 0
    for number in range(opening, final + 1):
        if _name(tags[number]) == name:
            depth += -1 if tags[number]["close"] else 1
            if depth == 0:
                return number
    return final


def _name(tag: re.Match[str]) -> str:
    return tag["name"].lower()
