"""What speaks for a message beside its words: who said it, when, whether it tells or only asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from memory_tencentdb_worker.models import Preference
from memory_tencentdb_worker.store.connection import Row
from memory_tencentdb_worker.store.message_map import TYPICAL_TERMS

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


@dataclass(frozen=True)
class Candidates:
    """What has to be known of messages to choose between them."""

    seqs: NDArray[np.int64]
    roles: Sequence[str]
    sent_at: NDArray[np.int64]
    terms: NDArray[np.int64]
    speakers: Sequence[str]  # "" when the text names none
    asks: NDArray[np.bool_]  # it holds a question

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Self:
        """Rows of seq, role, sent_at, terms, speaker, asks."""
        seqs, roles, sent_at, terms, speakers, asks = zip(*rows, strict=True) if rows else ((),) * 6
        numbers = (np.array(column, dtype=np.int64) for column in (seqs, sent_at, terms))
        one, two, three = numbers
        return cls(one, roles, two, three, speakers, np.array(asks, dtype=np.bool_))


def factors(terms: Sequence[str], prefer: Preference, candidates: Candidates) -> NDArray[np.float64]:
    """What the scores by words are multiplied with, always positive. Depends on all candidates of an answer: who speaks
    and what is newest."""
    lengths = np.minimum(candidates.terms / TYPICAL_TERMS + 0.2, LENGTH_CEILING)
    factor: NDArray[np.float64] = lengths**LENGTH_POWER
    factor[candidates.asks] *= QUESTION_FACTOR
    factor[_asked_for(terms, prefer, candidates)] *= SPEAKER_FACTOR
    in_time = np.zeros(len(factor), dtype=np.bool_)
    for first, last in prefer.spans:
        in_time |= (candidates.sent_at >= first) & (candidates.sent_at <= last)
    factor[in_time] *= TIME_FACTOR
    if prefer.latest:
        age = np.argsort(np.argsort(-candidates.seqs)) / len(factor)
        factor *= 1 + LATEST_GAIN * (1 - age)
    return factor


def _asked_for(terms: Sequence[str], prefer: Preference, candidates: Candidates) -> NDArray[np.bool_]:
    named = [name for name in set(candidates.speakers) if name and any(part in terms for part in name.split())]
    if len(named) == 1:
        return np.array([speaker == named[0] for speaker in candidates.speakers], dtype=np.bool_)
    if prefer.role is None:
        return np.zeros(len(candidates.roles), dtype=np.bool_)
    return np.array([role == prefer.role for role in candidates.roles], dtype=np.bool_)
