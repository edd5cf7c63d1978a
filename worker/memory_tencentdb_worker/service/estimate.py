"""What it would cost to read conversations: an estimate before a replay, a seed or an extraction from the beginning.

Where the ledger knows what a call of a task has cost on average, that is taken; else the length of the texts and of our
own instructions. It is a size to decide by, not a bill.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from memory_tencentdb_worker.layers.l1_atoms import BATCH_CHARS, BATCH_MESSAGES
from memory_tencentdb_worker.layers.l2_scenes import BATCH_ATOMS
from memory_tencentdb_worker.models import CallSum, TextVolume
from memory_tencentdb_worker.prompts import load
from memory_tencentdb_worker.text.tokens import count_tokens

TASKS = ("l1-extraction", "l1-reconcile", "l2-scenes", "l3-persona")
ENOUGH_CALLS = 5
"""So many calls of a task make an average."""

ATOMS_A_BATCH = 6
"""Facts that an extraction finds, as a rule."""

_ANSWER_SHARE = 0.35
"""Tokens of an answer for each token that was read."""

_LATIN_TOKENS_A_CHAR, _WIDE_TOKENS_A_CHAR = 0.26, 0.88
_LINE_TOKENS = 35
"""Id, role and time in front of each message."""

_DOCUMENT_TOKENS = 1_200
"""Scenes and persona that go along with a call of L2 or L3."""


@dataclass(frozen=True)
class Estimate:
    """`cost_usd` None: no call of this model has named a price."""

    sessions: int
    messages: int
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    basis: str

    def document(self) -> dict[str, Any]:
        return asdict(self)


def estimate(volumes: Iterable[TextVolume], ledger: Iterable[CallSum], model: str) -> Estimate:
    """`volumes` is what is to be read (`Store.text_volumes`, or made of a file), `ledger` what calls have cost so far
    (`Store.call_sums`). `model` "": no model, so no call."""
    held = list(volumes)
    messages = sum(one.messages for one in held)
    if not model:
        return Estimate(len(held), messages, 0, 0, 0, 0.0, "rules, which call no model")
    known = {one.task: one for one in ledger if one.model == model and one.calls - one.failed >= ENOUGH_CALLS}
    calls = _calls(held)
    read = sum(map(_tokens, held))
    tokens = {task: _tokens_of(task, count, read, known) for task, count in calls.items()}
    tokens_in, tokens_out = sum(one[0] for one in tokens.values()), sum(one[1] for one in tokens.values())
    basis = f"{len(known)} of {len(TASKS)} tasks from past calls of {model}" if known else "the length of the texts"
    cost = _cost(tokens_in + tokens_out, known)
    return Estimate(len(held), messages, sum(calls.values()), tokens_in, tokens_out, cost, basis)


def _calls(volumes: list[TextVolume]) -> dict[str, int]:
    batches = sum(max(math.ceil(one.messages / BATCH_MESSAGES), math.ceil(one.chars / BATCH_CHARS)) for one in volumes)
    scenes = sum(math.ceil(_batches(one) * ATOMS_A_BATCH / BATCH_ATOMS) for one in volumes)
    scopes = len({one.scope for one in volumes})
    return {
        "l1-extraction": batches,
        "l1-reconcile": max(0, batches - scopes),
        "l2-scenes": scenes,
        "l3-persona": scopes,
    }


def _batches(volume: TextVolume) -> int:
    return max(math.ceil(volume.messages / BATCH_MESSAGES), math.ceil(volume.chars / BATCH_CHARS))


def _tokens(volume: TextVolume) -> int:
    wide = max(0, volume.bytes - volume.chars) / 2
    text = (volume.chars - wide) * _LATIN_TOKENS_A_CHAR + wide * _WIDE_TOKENS_A_CHAR
    return round(text) + volume.messages * _LINE_TOKENS


def _tokens_of(task: str, calls: int, read: int, known: Mapping[str, CallSum]) -> tuple[int, int]:
    if calls == 0:
        return 0, 0
    past = known.get(task)
    if past is not None:
        good = past.calls - past.failed
        return round(calls * past.tokens_in / good), round(calls * past.tokens_out / good)
    instructions = calls * count_tokens(load(task))
    if task == "l1-extraction":
        return instructions + read, round(read * _ANSWER_SHARE)
    if task == "l1-reconcile":
        return instructions + round(read * _ANSWER_SHARE), round(read * _ANSWER_SHARE / 2)
    return instructions + calls * _DOCUMENT_TOKENS, calls * _DOCUMENT_TOKENS


def _cost(tokens: int, known: Mapping[str, CallSum]) -> float | None:
    spent = sum(one.tokens_in + one.tokens_out for one in known.values())
    paid = sum(one.cost_usd for one in known.values())
    return round(tokens * paid / spent, 4) if spent and paid else None
