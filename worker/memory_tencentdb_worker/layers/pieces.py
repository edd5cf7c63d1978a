"""A turn that is too long for one call is read in pieces, cut where a paragraph or a sentence ends, so that every part
of it is read and none of its facts depends on how much a model can take in at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from memory_tencentdb_worker.models import L1Batch, Message

SMALLEST_CHARS = 1_000
"""What is shorter is not cut any further: its answer is at fault, not its length."""

CONTEXT_CHARS = 300
_ENDS = ("\n\n", "\n", "。", "！", "？", ". ", "! ", "? ", "；", "; ", "，", ", ", " ")


def pieces(batch: L1Batch, max_chars: int) -> list[L1Batch]:
    """The batch in parts of at most `max_chars`, in order; itself when it is not longer. A message that is cut keeps
    its id in every part. Each part but the first has the end of the one before as its background."""
    groups = list(_groups(batch.messages, max_chars))
    if len(groups) < 2:
        return [batch]
    parts = [replace(batch, messages=groups[0])]
    for before, group in pairwise(groups):
        end = replace(before[-1], text=before[-1].text[-CONTEXT_CHARS:])
        parts.append(replace(batch, background=(end,), messages=group))
    return parts


def halves(batch: L1Batch) -> list[L1Batch]:
    """About half of the batch each; the batch alone when it is too short to be cut."""
    length = sum(len(message.text) for message in batch.messages)
    return pieces(batch, length // 2 + 1) if length > SMALLEST_CHARS else [batch]


def cut_text(text: str, max_chars: int) -> list[str]:
    """The text in parts that make it up again, each ending where a paragraph, a sentence or at least a word ends."""
    parts = []
    while len(text) > max_chars:
        end = _end(text, max_chars)
        parts.append(text[:end])
        text = text[end:]
    return [*parts, text]


def _end(text: str, max_chars: int) -> int:
    for mark in _ENDS:
        at = text.rfind(mark, max_chars // 2, max_chars)
        if at >= 0:
            return min(at + len(mark), max_chars)
    return max_chars


def _groups(messages: Sequence[Message], max_chars: int) -> Iterator[tuple[Message, ...]]:
    group: list[Message] = []
    for message in messages:
        for text in cut_text(message.text, max_chars):
            if group and sum(len(one.text) for one in group) + len(text) > max_chars:
                yield tuple(group)
                group = []
            group.append(replace(message, text=text))
    yield tuple(group)
