"""What the host hands over as a turn, brought into the form that travels: text, in pieces that fit into a request."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from .private import without_private

PIECE_CHARS = 80_000
"""A character takes at most 12 bytes in JSON, so that a piece stays under the worker's body limit of 1 MiB."""

QUERY_CHARS = 20_000

TRIVIAL_WORDS = """
ok okay yes yep yeah no nope sure thanks thx ty thankyou hi hello hey bye goodbye continue proceed stop great good nice
cool done next gotit goahead goon soundsgood lgtm
好 好的 好吧 嗯 嗯嗯 是 是的 对 对的 行 可以 不 不是 不用 谢谢 多谢 你好 您好 再见 继续 收到 明白 知道了
はい いいえ ありがとう ありがとうございます こんにちは 了解 続けて 네 예 아니요 감사합니다 고마워 안녕 안녕하세요 계속
"""
TRIVIAL = frozenset(TRIVIAL_WORDS.split())
_COMMAND = re.compile(r"/[A-Za-z][\w-]*(\s|$)")


def is_trivial(prompt: str) -> bool:
    """Whether a prompt asks for nothing that memory could hold: greetings, consent, commands, less than two letters."""
    text = unicodedata.normalize("NFKC", prompt).strip()
    if _COMMAND.match(text):
        return True
    letters = "".join(char for char in text.lower() if char.isalnum())
    return len(letters) < 2 or letters in TRIVIAL


def flatten(content: object) -> str:
    """Text of a host's content: a string, or a list of parts, where what is not text becomes a mark such as [image].
    What stands in `<private>` goes no further than here."""
    if content is None:
        return ""
    if isinstance(content, (list, tuple)):
        return without_private("\n".join(part for part in map(_flatten_part, content) if part))
    return without_private(str(content))


def _flatten_part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    kind = str(part.get("type") or "")
    return f"[{kind.removeprefix('input_').removesuffix('_url')}]" if kind else ""


def shorten_query(text: str) -> str:
    """The beginning and the end of a long question: what it is about stands there, and a request holds no more."""
    if len(text) <= QUERY_CHARS:
        return text
    return f"{text[: QUERY_CHARS // 2]}\n{text[-QUERY_CHARS // 2 :]}"


def split_turn(user: str, assistant: str) -> list[tuple[str, str]]:
    """The turn in pieces that each fit into one request; nearly always one. Nothing is cut off."""
    if len(user) + len(assistant) <= PIECE_CHARS:
        return [(user, assistant)]
    return [(piece, "") for piece in _pieces(user)] + [("", piece) for piece in _pieces(assistant)]


def split_write(action: str, text: str) -> list[tuple[str, str]]:
    """A write of the host's own memory as (action, content) of each request: what does not fit into the first is added
    to it. A removal needs no more than the beginning of the text."""
    first, *rest = _pieces(text) or [""]
    return [(action, first), *(("add", piece) for piece in rest if action != "remove")]


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]


def last_user_text(messages: object) -> str:
    """The text of the last user message of a host's list, "" when there is none."""
    for message in reversed(messages if isinstance(messages, list) else []):
        if isinstance(message, dict) and message.get("role") == "user":
            return flatten(message.get("content"))
    return ""


def count_user_messages(messages: object) -> int | None:
    if not isinstance(messages, list):
        return None
    return sum(1 for message in messages if isinstance(message, dict) and message.get("role") == "user")


class TurnNumbers:
    """Gives each turn its id: the same for every sync of one turn, another for the same words in a later turn (B30).

    The host announces a turn with `on_turn_start`. Where it does not, a turn is new when its text or the number of
    user messages so far differs from the last sync.
    """

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce
        self._number = 0
        self._started = False
        self._last: tuple[object, ...] | None = None

    def start(self) -> None:
        self._number += 1
        self._started = True

    def turn_id(self, session_key: str, user: str, assistant: str, messages: list[dict[str, Any]] | None) -> str:
        import hashlib

        count = count_user_messages(messages)
        mark = (session_key, user, count if count is not None else assistant)
        if not self._started and mark != self._last:
            self._number += 1
        self._started, self._last = False, mark
        seed = f"{self._nonce}\n{session_key}\n{self._number}\n{user}"
        return "t_" + hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:24]
