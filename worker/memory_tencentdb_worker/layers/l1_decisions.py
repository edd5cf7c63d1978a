"""The shape of a reconcile answer, read leniently: whatever is unclear counts as `store`, which loses nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from memory_tencentdb_worker.errors import LLMContent
from memory_tencentdb_worker.layers.l1_answer import content_of, ids_of, priority_of, type_of
from memory_tencentdb_worker.models import AtomType


class Action(StrEnum):
    STORE = "store"
    UPDATE = "update"
    MERGE = "merge"
    SKIP = "skip"


@dataclass(frozen=True)
class Decision:
    record_id: str
    action: Action
    target_ids: tuple[str, ...]
    content: str  # "" when the answer gave none that can be used
    type: AtomType | None
    priority: int | None
    valid_from: object


def read_decisions(value: object) -> dict[str, Decision]:
    """By the id of the new memory; the first decision for an id counts. Raises LLMContent for any other shape."""
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list) or (value and not any(isinstance(item, Mapping) for item in value)):
        raise LLMContent("the answer is no list of decisions", code="wrong_shape")
    decisions: dict[str, Decision] = {}
    for item in value:
        if isinstance(item, Mapping):
            decision = _decision(item)
            decisions.setdefault(decision.record_id, decision)
    return decisions


def _decision(item: Mapping[object, object]) -> Decision:
    word = item.get("action")
    action = word.strip().lower() if isinstance(word, str) else ""
    targets = item.get("target_ids")
    return Decision(
        record_id=str(item.get("record_id") or item.get("id") or ""),
        action=Action(action) if action in tuple(Action) else Action.STORE,
        target_ids=tuple(ids_of(targets)) if targets is not None else (),
        content=content_of(item.get("merged_content")),
        type=type_of(item.get("merged_type")),
        priority=_priority(item.get("merged_priority")),
        valid_from=item.get("valid_from"),
    )


def _priority(value: object) -> int | None:
    unclear = -2
    number = priority_of(value, unclear)
    return None if number == unclear else number
