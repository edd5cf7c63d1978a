"""What speaks for a message beside its words: who said it, when, whether it tells or only asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from memory_tencentdb_worker.models import Preference

SPEAKER_FACTOR = 1.5
"""For the one speaker that the question names, or whose part in the talk it asks for ("what did you recommend?"). From
1.3 to 1.8 recall@10 on LoCoMo's development half moved by 0.3 points."""

TIME_FACTOR = 2.0
"""For a message of the days the question names. From 1.5 to 3 recall@10 moved by 0.3 points on LoCoMo, 1.0 on
MemoryBank."""

LATEST_GAIN = 0.5
"""For the newest of the candidates when the question asks for the latest, less the older they are."""

QUESTION_FACTOR = 0.85
"""A message that asks is less often the one that tells (0.3 points, MRR +.01 to +.03 on LoCoMo and MemoryBank)."""

LENGTH_POWER = 0.15
LENGTH_CEILING = 1.3
"""One that says more than "ok" tells more; from the typical length on it makes no difference."""


class Candidate(NamedTuple):
    """What an appraisal has to know of a message."""

    place: int
    length: float  # relative to a typical message
    seq: int
    role: str
    sent_at: int
    speaker: str  # "" when the text names none
    asks: bool  # it holds a question


class Appraisal:
    """Made once for an answer, over all its candidates: who speaks and what is newest depends on the others."""

    def __init__(self, terms: Sequence[str], prefer: Preference, candidates: Sequence[Candidate]) -> None:
        self._prefer = prefer
        named = [
            name for name in {one.speaker for one in candidates} if name and any(part in terms for part in name.split())
        ]
        self._speaker = named[0] if len(named) == 1 else ""
        newest_first = sorted((one.seq for one in candidates), reverse=True)
        self._age = {seq: place / len(newest_first) for place, seq in enumerate(newest_first)}

    def factor(self, one: Candidate) -> float:
        """What the score by words is multiplied with. Always positive."""
        prefer = self._prefer
        factor: float = min(one.length + 0.2, LENGTH_CEILING) ** LENGTH_POWER
        if one.asks:
            factor *= QUESTION_FACTOR
        if self._is_asked_for(one):
            factor *= SPEAKER_FACTOR
        if any(first <= one.sent_at <= last for first, last in prefer.spans):
            factor *= TIME_FACTOR
        if prefer.latest:
            factor *= 1 + LATEST_GAIN * (1 - self._age[one.seq])
        return factor

    def _is_asked_for(self, one: Candidate) -> bool:
        if self._speaker:
            return one.speaker == self._speaker
        return self._prefer.role is not None and one.role == self._prefer.role
