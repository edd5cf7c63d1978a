"""What of a batch L1 may read: suspected attempts to plant something are taken out and held for a person, and so is
what recall itself once wrote, however it came back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from memory_tencentdb_worker.models import Filter, L1Batch, Message, Origin, Role
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.quarantine import DROPPED, HELD, RELEASED
from memory_tencentdb_worker.text.foreign import Span, merged, without_spans
from memory_tencentdb_worker.text.segment import fold
from memory_tencentdb_worker.text.suspicion import held_spans, reasons_of, suspicions

HELD_MARK = " […] "
SPLIT = "split"
"""The reason of messages that are suspicious only together."""

JOINT_CHARS = 300
"""How far an attempt that is split over two messages is looked for on either side."""

ECHO_CHARS = 20
MOST_ECHO_LINES = 30
_FOREIGN = (Origin.TOOL, Origin.WEB)
_ECHO_LINE = re.compile(
    r"(?im)^[^\w\n]{0,40}(?:\d{1,3}[.)][ \t]*)?"
    r"(?:[\[(|]?[ \t]*\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d)?[ \t]*[\])|:,-]*[ \t]*)?"
    r"(?:(?:the (?:user|assistant) said|standing rule|until \d{4}-\d\d-\d\d|[\w ]{0,20}memory|known fact)[:：][ \t]*)?"
    r"[\"“'「]?(?P<fact>(?:the user|user\b|users\b|用户)[^\n]{10,})$"
)
_ECHO_END = re.compile(r"[\s\"”'」|,]{0,20}(?:\((?:m|l0)_[^)\n]*\)?)?[\s\"”'」|,.。!！]{0,20}$")


def suspicion_of(text: str, origin: Origin) -> tuple[str, ...]:
    """Why a message is held back; () for nearly all."""
    return reasons_of(suspicions(text, foreign=origin in _FOREIGN))


def screened(batch: L1Batch, store: Store, now: int) -> L1Batch:
    """The batch with the same messages, without what must not be read of them. Newly suspected ones are held."""
    messages = (*batch.background, *batch.messages)
    states = store.quarantine_states([message.seq for message in messages])
    reasons, spans = _found(messages, states)
    new = [(message, reasons[message.seq]) for message in messages if message.seq in reasons.keys() - states.keys()]
    if new:
        store.hold_messages(new, now)
    texts = {message.seq: _readable(message, states.get(message.seq), spans.get(message.seq, []), store)
             for message in messages}  # fmt: skip
    return replace(
        batch,
        background=tuple(replace(one, text=texts[one.seq]) for one in batch.background),
        messages=tuple(replace(one, text=texts[one.seq]) for one in batch.messages),
    )


def _found(
    messages: Sequence[Message], states: dict[int, str]
) -> tuple[dict[int, tuple[str, ...]], dict[int, list[Span]]]:
    reasons: dict[int, tuple[str, ...]] = {}
    spans: dict[int, list[Span]] = {}
    watched = [message for message in messages if states.get(message.seq) != RELEASED]
    for message in watched:
        found = suspicions(message.text, foreign=message.origin in _FOREIGN)
        if found:
            reasons[message.seq], spans[message.seq] = reasons_of(found), held_spans(found)
    said = [message for message in watched if message.role is Role.USER]
    for first, second in pairwise(said):
        for message, span in _across(first, second):
            reasons.setdefault(message.seq, (SPLIT,))
            spans[message.seq] = merged([*spans.get(message.seq, []), span])
    return reasons, spans


def _across(first: Message, second: Message) -> list[tuple[Message, Span]]:
    """An attempt that begins in one message and ends in the next."""
    head, tail = first.text[-JOINT_CHARS:].rstrip(), second.text[:JOINT_CHARS].lstrip()
    offset, skipped = max(0, len(first.text) - JOINT_CHARS), len(second.text[:JOINT_CHARS]) - len(tail)
    joint = "" if _is_han(head[-1:]) and _is_han(tail[:1]) else " "
    border = len(head) + len(joint)
    result = []
    for one in suspicions(head + joint + tail, foreign=False):
        if one.match[0] < len(head) and one.match[1] > border:
            result += [(first, (offset + one.span[0], len(first.text))), (second, (0, skipped + one.span[1] - border))]
    return result


def _is_han(char: str) -> bool:
    return "\u3400" <= char <= "\u9fff"


def _readable(message: Message, state: str | None, spans: Sequence[Span], store: Store) -> str:
    if state == DROPPED or (state == HELD and not spans):
        return ""
    text = without_spans(message.text, spans, HELD_MARK) if spans else message.text
    if message.role is Role.USER and message.origin is Origin.USER:
        text = without_spans(text, _echoes(text, message.scope, store), "\n")
    return text if any(char.isalnum() for char in text) else ""


def _echoes(text: str, scope: str, store: Store) -> Iterable[Span]:
    """Lines that say, in the third person, what the store says word for word: nobody speaks of himself like that."""
    lines = list(_ECHO_LINE.finditer(text))[:MOST_ECHO_LINES]
    return [line.span() for line in lines if _is_known(_ECHO_END.sub("", line["fact"]), scope, store)]


def _is_known(fact: str, scope: str, store: Store) -> bool:
    wanted = _bare(fact)
    if len(wanted) < ECHO_CHARS // 2:
        return False
    hits = store.search_atoms(fact, Filter(scope, superseded=True), 5)
    known = [_bare(hit.atom.content) for hit in hits]
    return any(wanted == one or (len(wanted) >= ECHO_CHARS and one.startswith(wanted)) for one in known)


def _bare(text: str) -> str:
    return " ".join(fold(text).split()).rstrip(".。!！…").removeprefix("the ").strip()
