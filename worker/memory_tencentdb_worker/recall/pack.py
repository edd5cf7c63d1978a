"""Packs ranked memories into a hard token budget and says what became of each.

The text holds facts first, then what was said, then lines of scenes. Each of these layers has a quota of the budget, so
that none crowds out another; what a layer leaves over goes to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from memory_tencentdb.wire import DroppedItem, GivenItem
from memory_tencentdb_worker.models import Layer
from memory_tencentdb_worker.recall.rank import Candidate, Ranking
from memory_tencentdb_worker.recall.render import line_text, recall_line
from memory_tencentdb_worker.text.recalled import RECALL_HEADER
from memory_tencentdb_worker.text.tokens import count_tokens, cut_to_chars, cut_to_tokens

QUOTAS = ((Layer.L1, 0.6), (Layer.L0, 0.3), (Layer.L2, 0.1))
"""In the order of the text. A layer without candidates leaves its share to the others."""

LINE_SHARE = 5
"""The text of one memory takes at most a fifth of the budget: a pasted page must not push out everything else."""

SMALLEST_LINE_TOKENS = 40
SMALLEST_CUT_TOKENS = 8
SMALLEST_CUT_CHARS = 40
NO_ROOM = -1

BUDGET, QUOTA = "budget", "quota"
"""Why a ranked memory is not in the text: no room for it, or room that belonged to another layer."""


@dataclass(frozen=True)
class Limits:
    """`chars_per_memory` and `chars_in_all` are the manual's; 0 is no limit of that kind."""

    tokens: int
    chars_per_memory: int = 0
    chars_in_all: int = 0


@dataclass(frozen=True)
class Pack:
    """`given` and `receipts` in the order of the ranking."""

    text: str
    tokens: int
    given: tuple[Candidate, ...]
    receipts: tuple[GivenItem, ...]
    dropped: tuple[DroppedItem, ...]


def pack(ranking: Ranking, terms: Sequence[str], limits: Limits, zone: tzinfo) -> Pack:
    """The text never costs more than `limits.tokens`, header included. What does not fit is left out; a shorter
    memory after it may still fit."""
    ranked = (*ranking.standing, *ranking.chosen, *ranking.lines)
    page = _Page(terms, limits, zone)
    waiting: list[tuple[Candidate, str]] = []
    for layer, ceiling in _ceilings(ranked, limits.tokens):
        for candidate in (one for one in ranked if one.layer is layer):
            if not page.place(candidate, ceiling):
                waiting.append((candidate, QUOTA if page.has_room(candidate) else BUDGET))
    dropped = [
        *ranking.dropped,
        *(DroppedItem(one.id, reason) for one, reason in waiting if not page.place(one, limits.tokens)),
    ]
    given = tuple(one for one in ranked if page.line_of(one) is not None)
    text = page.text if given else ""
    receipts = tuple(entry for one in given for entry in _receipt(one, page.line_of(one) or ""))
    return Pack(text, count_tokens(text), given, receipts, tuple(dropped))


def _receipt(candidate: Candidate, line: str) -> list[GivenItem]:
    """A scene's line gives its facts too: they are not given to the session once more."""
    also = () if candidate.line is None else candidate.line.sources
    return [GivenItem(candidate.id, count_tokens(line)), *(GivenItem(source, 0) for source in also)]


def _ceilings(ranked: Sequence[Candidate], tokens: int) -> list[tuple[Layer, int]]:
    """Up to how many tokens the text may grow with each layer, the layers before it included."""
    present = {one.layer for one in ranked}
    shares = [(layer, share) for layer, share in QUOTAS if layer in present]
    whole = sum(share for _, share in shares)
    ceilings, used = [], 0.0
    for layer, share in shares:
        used += share / whole
        ceilings.append((layer, round(tokens * min(used, 1.0))))
    return ceilings


class _Page:
    """The text as it grows: lines by layer, in the order in which they were placed."""

    def __init__(self, terms: Sequence[str], limits: Limits, zone: tzinfo) -> None:
        self._terms, self._limits, self._zone = terms, limits, zone
        self._lines: dict[Layer, list[str]] = {layer: [] for layer, _ in QUOTAS}
        self._placed: dict[int, str] = {}

    @property
    def text(self) -> str:
        return self._text_with()

    def line_of(self, candidate: Candidate) -> str | None:
        return self._placed.get(id(candidate))

    def place(self, candidate: Candidate, ceiling: int) -> bool:
        """False when the text would cost more than `ceiling` with it."""
        line = self._fitting_line(candidate, ceiling)
        if line is None:
            return False
        self._lines[candidate.layer].append(line)
        self._placed[id(candidate)] = line
        return True

    def has_room(self, candidate: Candidate) -> bool:
        return self._fitting_line(candidate, self._limits.tokens) is not None

    def _fitting_line(self, candidate: Candidate, ceiling: int) -> str | None:
        """The line, cut when it is long. The first memory may be cut to what there is room for."""
        share = max(SMALLEST_LINE_TOKENS, self._limits.tokens // LINE_SHARE)
        text = line_text(candidate, self._terms, share)
        frame = recall_line(candidate, "", self._zone)
        chars = self._chars_left(text, frame)
        if chars == NO_ROOM:
            return None
        text = cut_to_chars(text, chars) if chars else text
        line = recall_line(candidate, cut_to_tokens(text, share), self._zone)
        if self._fits(line, candidate.layer, ceiling):
            return line
        spare = ceiling - count_tokens(self._text_with(frame, candidate.layer)) - 1
        if self._placed or spare < SMALLEST_CUT_TOKENS:
            return None
        line = recall_line(candidate, cut_to_tokens(text, spare), self._zone)
        return line if self._fits(line, candidate.layer, ceiling) else None

    def _chars_left(self, text: str, frame: str) -> int:
        """How many characters of the memory's own text may stand in its line; 0 is no limit, NO_ROOM too few to say
        anything."""
        limits = self._limits
        if not limits.chars_in_all:
            return limits.chars_per_memory
        used = sum(len(line) + 1 for line in self._placed.values())
        room = limits.chars_in_all - used - len(frame)
        if room < SMALLEST_CUT_CHARS and room < len(text):
            return NO_ROOM
        return min(room, limits.chars_per_memory) if limits.chars_per_memory else room

    def _fits(self, line: str, layer: Layer, ceiling: int) -> bool:
        return count_tokens(self._text_with(line, layer)) <= ceiling

    def _text_with(self, line: str | None = None, layer: Layer | None = None) -> str:
        rows = [RECALL_HEADER]
        for each, lines in self._lines.items():
            rows += lines
            if line is not None and each is layer:
                rows.append(line)
        return "\n".join(rows)
