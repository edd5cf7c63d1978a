"""The conversation that a host hands over with a turn: what of it is the turn itself, and what the session lacks.

In doubt a message is stored: at most twice, never not at all. Only the turn's id tells that a turn came before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from memory_tencentdb_worker.models import Origin, Role

ALIGNED_MESSAGES = 300
"""So many of the newest messages are compared in their order; time and memory stay bounded whatever a host sends."""


@dataclass(frozen=True)
class Said:
    """A cleaned message whose time may still be unknown."""

    role: Role
    text: str
    at: int | None = None
    origin: Origin | None = None  # None: as the role says

    @property
    def key(self) -> tuple[Role, str]:
        return self.role, self.text


def split_turn(conversation: list[Said], question: list[Said], answer: list[Said]) -> tuple[list[Said], list[Said]]:
    """What was said before this turn, and the turn with what it did on the way to its answer.

    The conversation holds the turn when its last user message is the turn's and nothing the assistant said after it
    contradicts the answer: one that ends before a repeated "ok" does not hold the second one. Two messages that are
    these two texts are the turn, in whatever order and by whomever they were said.
    """
    texts = {said.text for said in (*question, *answer)}
    if len(conversation) == len(texts) == 2 and {said.text for said in conversation} == texts:
        return [], conversation
    last = max((index for index, said in enumerate(conversation) if said.role is Role.USER), default=-1)
    after = [said.key for said in conversation[last + 1 :]]
    answered = bool(answer) and answer[0].key in after
    if not question:
        start = last + 1 + after.index(answer[0].key) if answered else len(conversation)
        return conversation[:start], conversation[start:] or answer
    if last < 0 or conversation[last].key != question[0].key or (answer and after and not answered):
        return conversation, [*question, *answer]
    return conversation[:last], [*conversation[last:], *([] if answered else answer)]


def not_stored(history: list[Said], stored: Sequence[tuple[Role, str]]) -> list[Said]:
    """What of the history the session does not hold: the newest messages are compared in their order, so that a text
    said again later counts as new; of older ones, those whose text it does not hold anywhere."""
    if not stored:
        return history
    border = max(0, len(history) - ALIGNED_MESSAGES)
    held = frozenset(stored) if border else frozenset()
    recent = history[border:]
    known = _common(recent, stored[-2 * ALIGNED_MESSAGES :])
    return [
        *(said for said in history[:border] if said.key not in held),
        *(said for index, said in enumerate(recent) if index not in known),
    ]


def not_grown(turn: list[Said], stored: Sequence[tuple[Role, str]]) -> list[Said]:
    """Only the new end of a turn whose beginning, with an answer at least, is how the session ends: in a tool loop a
    host hands over the same turn again and again, each time longer."""
    keys = [said.key for said in turn]
    for length in range(min(len(turn) - 1, ALIGNED_MESSAGES), 1, -1):
        if keys[:length] == list(stored[-length:]):
            return turn[length:]
    return turn


def _common(said: Sequence[Said], stored: Sequence[tuple[Role, str]]) -> set[int]:
    """Indices in `said` of a longest common subsequence (Hunt and Szymanski, CACM 1977)."""
    places: dict[tuple[Role, str], list[int]] = {}
    for place, key in enumerate(stored):
        places.setdefault(key, []).append(place)
    ends: list[int] = []  # the smallest place in which a chain of each length can end
    chains: list[tuple[int, object]] = []  # (index in `said`, the chain before it)
    for index, one in enumerate(said):
        for place in reversed(places.get(one.key, [])):
            length = bisect_left(ends, place)
            chain = (index, chains[length - 1] if length else None)
            ends[length : length + 1] = [place]
            chains[length : length + 1] = [chain]
    known: set[int] = set()
    rest: object = chains[-1] if chains else None
    while isinstance(rest, tuple):
        known.add(rest[0])
        rest = rest[1]
    return known
