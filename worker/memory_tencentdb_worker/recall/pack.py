"""Packs ranked memories into a hard token budget and says what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from memory_tencentdb.wire import DroppedItem, GivenItem
from memory_tencentdb_worker.recall.rank import Candidate, Ranking
from memory_tencentdb_worker.recall.render import line_text, recall_line
from memory_tencentdb_worker.text.recalled import RECALL_HEADER
from memory_tencentdb_worker.text.tokens import count_tokens, cut_to_chars, cut_to_tokens

LINE_SHARE = 5
"""The text of one memory takes at most a fifth of the budget: a pasted page must not push out everything else."""

SMALLEST_LINE_TOKENS = 40
SMALLEST_CUT_TOKENS = 8
SMALLEST_CUT_CHARS = 40
NO_ROOM = -1


@dataclass(frozen=True)
class Limits:
    """`chars_per_memory` and `chars_in_all` are the manual's; 0 is no limit of that kind."""

    tokens: int
    chars_per_memory: int = 0
    chars_in_all: int = 0


@dataclass(frozen=True)
class Pack:
    text: str
    tokens: int
    given: tuple[Candidate, ...]
    receipts: tuple[GivenItem, ...]
    dropped: tuple[DroppedItem, ...]


def pack(ranking: Ranking, terms: Sequence[str], limits: Limits, zone: tzinfo) -> Pack:
    """The text never costs more than `limits.tokens`, header included. What does not fit is left out; a shorter
    memory after it may still fit."""
    rows = [RECALL_HEADER]
    given: list[Candidate] = []
    receipts: list[GivenItem] = []
    dropped = list(ranking.dropped)
    for candidate in (*ranking.standing, *ranking.chosen):
        line = _fitting_line(candidate, terms, rows, limits, zone=zone)
        if line is None:
            dropped.append(DroppedItem(candidate.id, "budget"))
            continue
        rows.append(line)
        given.append(candidate)
        receipts.append(GivenItem(candidate.id, count_tokens(line)))
    text = "\n".join(rows) if given else ""
    return Pack(text, count_tokens(text), tuple(given), tuple(receipts), tuple(dropped))


def _fitting_line(
    candidate: Candidate, terms: Sequence[str], rows: Sequence[str], limits: Limits, *, zone: tzinfo
) -> str | None:
    """The line, cut when it is long. The first memory may be cut to what the budget has room for."""
    share = max(SMALLEST_LINE_TOKENS, limits.tokens // LINE_SHARE)
    text = line_text(candidate, terms, share)
    frame = recall_line(candidate, "", zone)
    chars = _chars_left(text, frame, rows, limits)
    if chars == NO_ROOM:
        return None
    text = cut_to_chars(text, chars) if chars else text
    line = recall_line(candidate, cut_to_tokens(text, share), zone)
    if _fits([*rows, line], limits):
        return line
    spare = limits.tokens - count_tokens("\n".join([*rows, frame])) - 1
    if len(rows) > 1 or spare < SMALLEST_CUT_TOKENS:
        return None
    line = recall_line(candidate, cut_to_tokens(text, spare), zone)
    return line if _fits([*rows, line], limits) else None


def _chars_left(text: str, frame: str, rows: Sequence[str], limits: Limits) -> int:
    """How many characters of the memory's own text may stand in its line; 0 is no limit, NO_ROOM too few to say
    anything."""
    if not limits.chars_in_all:
        return limits.chars_per_memory
    used = sum(len(row) + 1 for row in rows[1:])
    room = limits.chars_in_all - used - len(frame)
    if room < SMALLEST_CUT_CHARS and room < len(text):
        return NO_ROOM
    return min(room, limits.chars_per_memory) if limits.chars_per_memory else room


def _fits(rows: Sequence[str], limits: Limits) -> bool:
    return count_tokens("\n".join(rows)) <= limits.tokens
