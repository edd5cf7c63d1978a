"""Secrets are taken out of every text before it touches a disk, a log, a prompt or the outbox.

Each becomes `[redacted:KIND:FINGERPRINT]`; the fingerprint is keyed, so that the same secret can be told again by who
holds the key, and the key is one per home. What is marked is not marked again. A package of its own, imported at the
first text: the host runs every module at the top of the provider's folder when it starts, and the rules cost time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from .context_rules import CONTEXT_RULES
from .rules import TOKEN_RULES, Rule, Span

FINGERPRINT_CHARS = 8
MARK = re.compile(r"\[redacted:[a-z0-9-]{1,40}(?::[0-9a-f]{8})?\]")
_MARK_HEAD = "[redacted:"
_LEAST_REST = 3
_MOST_PASSES = 4
SECRET_RULES = (*TOKEN_RULES, *CONTEXT_RULES)
DISTINCT_RULES = tuple(rule for rule in SECRET_RULES if rule.distinct)


class Found(NamedTuple):
    start: int
    end: int
    kind: str


class Redactor:
    """Thread-safe. `allow` names what is none: a text as it is, or `/a regular expression/` for the whole secret; one
    that is no regular expression allows nothing."""

    def __init__(self, key: bytes, *, enabled: bool = True, allow: Iterable[str] = (), personal: bool = False) -> None:
        self.enabled = enabled
        self._key, self._rules = key, SECRET_RULES
        if personal:
            from .personal_rules import PERSONAL_RULES

            self._rules = (*SECRET_RULES, *PERSONAL_RULES)
        self._literals = frozenset(entry for entry in allow if not is_regex(entry))
        self._patterns = tuple(filter(None, map(allowed_pattern, allow)))

    def redact(self, text: str) -> str:
        """The text with its secrets marked. Marking twice changes nothing."""
        return self._marked(text, self._rules) if self.enabled else text

    def redact_name(self, text: str) -> str:
        """For names and keys: only what its shape gives away, no number and no word in a context."""
        return self._marked(text, DISTINCT_RULES) if self.enabled else text

    def find(self, text: str) -> list[Found]:
        """Where the secrets are, in order, apart from what is allowed."""
        return [found for found in find_secrets(text, self._rules) if not self._allowed(text[found.start : found.end])]

    def fingerprint(self, secret: str) -> str:
        import hmac

        digest = hmac.new(self._key, secret.encode("utf-8", "surrogatepass"), "sha256")
        return digest.hexdigest()[:FINGERPRINT_CHARS]

    def _marked(self, text: str, rules: tuple[Rule, ...]) -> str:
        return _replace(text, rules, self._mark)

    def _mark(self, kind: str, secret: str) -> str:
        return "" if self._allowed(secret) else f"{_MARK_HEAD}{kind}:{self.fingerprint(secret)}]"

    def _allowed(self, secret: str) -> bool:
        return secret in self._literals or any(pattern.fullmatch(secret) for pattern in self._patterns)


def hide_secrets(text: str) -> str:
    """For logs and messages: the secrets are marked by kind only. No setting switches it off."""
    return _replace(text, SECRET_RULES, lambda kind, _secret: f"{_MARK_HEAD}{kind}]")


def hide_in_file(path: Path) -> None:
    """What a process printed that was not ours to stop, as it crashed: its secrets leave the file, in place."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        hidden = hide_secrets(text)
        if hidden != text:
            path.write_text(hidden, encoding="utf-8")
    except OSError:
        return  # no file, or a disk that takes nothing: what the caller is about matters more


def find_secrets(text: str, rules: Iterable[Rule]) -> list[Found]:
    """In order, none over another or over a mark, whose words mean nothing here. Of two rules the earlier one decides;
    of what a later one finds around it, the rest is taken too."""
    if _MARK_HEAD in text:
        text = MARK.sub(_blank_out, text)
    lowered = _lowered(text)
    taken: list[Span] = []
    result: list[Found] = []
    for rule in rules:
        if rule.anchors and not any(anchor in (lowered if rule.folded else text) for anchor in rule.anchors):
            continue
        for start, end in rule.spans(text, lowered):
            for rest in _rests(start, end, taken):
                if rest == (start, end) or _tells(text[slice(*rest)]):
                    result.append(Found(*rest, rule.kind))
                    insort(taken, rest)
    return sorted(result)


def allowed_pattern(entry: str) -> re.Pattern[str] | None:
    """The regular expression of an entry of the allow list; None when it is a plain text, or wrong."""
    if not is_regex(entry):
        return None
    try:
        return re.compile(entry[1:-1])
    except re.error:
        return None


def is_regex(entry: str) -> bool:
    return len(entry) > 2 and entry.startswith("/") and entry.endswith("/")


def _replace(text: str, rules: tuple[Rule, ...], mark: Callable[[str, str], str]) -> str:
    """`mark` answers "" for what stays. Looks again until nothing new is found: a mark may lay bare what stood in the
    shadow of another match, and marking twice must be marking once."""
    for _ in range(_MOST_PASSES):
        pieces, last = [], 0
        for start, end, kind in find_secrets(text, rules):
            if made := mark(kind, text[start:end]):
                pieces += [text[last:start], made]
                last = end
        if not pieces:
            break
        text = "".join([*pieces, text[last:]])
    return text


def _rests(start: int, end: int, taken: list[Span]) -> list[Span]:
    """What of a span none of `taken` covers, which are in order and apart."""
    rests: list[Span] = []
    at = max(bisect_left(taken, (start, start)) - 1, 0)
    while at < len(taken) and taken[at][0] < end:
        if taken[at][0] > start:
            rests.append((start, taken[at][0]))
        start = max(start, taken[at][1])
        at += 1
    return [*rests, (start, end)] if start < end else rests


def _lowered(text: str) -> str:
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def _blank_out(mark: re.Match[str]) -> str:
    return "\n" * len(mark.group())


def _tells(text: str) -> bool:
    return sum(map(str.isalnum, text)) >= _LEAST_REST
