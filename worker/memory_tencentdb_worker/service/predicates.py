"""The filter language of `inspect`: `role=user`, `type=persona,priority>=80`. Columns are a fixed list a layer."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.models import Layer

_SHAPE = re.compile(r"\s*([A-Za-z_0-9]+)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*", re.DOTALL)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_NUMBERS = frozenset({"timestamp", "priority", "heat", "revision"})
_MANUAL_NAMES = {"record_id": "id", "message_text": "content", "updated_at": "updated", "created_at": "created"}
"""Column names of the original's tables whose field is called otherwise in the answer."""

COLUMNS: dict[Layer, tuple[str, ...]] = {
    Layer.L0: (
        "id", "sessionKey", "sessionId", "role", "content", "recordedAt", "timestamp", "turnId", "userId", "origin",
    ),
    Layer.L1: (
        "id", "content", "type", "priority", "sceneName", "sessionKey", "sessionId", "timestampStr", "timestampStart",
        "timestampEnd", "createdTime", "updatedTime", "validFrom", "validTo", "supersededAt", "supersededBy",
        "extractor", "origin", "userId",
    ),
    Layer.L2: ("id", "filename", "summary", "heat", "created", "updated", "status", "userId"),
    Layer.L3: ("id", "content", "revision", "created", "reason", "userId"),
}  # fmt: skip


@dataclass(frozen=True)
class Predicate:
    column: str
    operator: str
    value: str | int

    def holds(self, row: Mapping[str, Any]) -> bool:
        return _COMPARE[self.operator](row[self.column], self.value)


def parse_filter(text: str, layer: Layer) -> list[Predicate]:
    """Comma-separated predicates that must all hold. Raises InvalidInput, naming what may be used instead."""
    return [_parse(part, layer) for part in text.split(",") if part.strip()]


def _parse(text: str, layer: Layer) -> Predicate:
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise InvalidInput(f"filter {text!a} is not of the form column=value (or != >= <= > <)")
    name, sign, value = found.groups()
    column = _column(name, layer)
    if column not in _NUMBERS:
        return Predicate(column, sign, value)
    try:
        return Predicate(column, sign, int(value))
    except ValueError as error:
        raise InvalidInput(f"filter {text!a}: {name} is compared with a whole number") from error


def _column(name: str, layer: Layer) -> str:
    wanted = _MANUAL_NAMES.get(name, name)
    for column in COLUMNS[layer]:
        if wanted in (column, _snake(column)):
            return column
    raise InvalidInput(f"{layer} has no column {name!a}: use one of {', '.join(COLUMNS[layer])}")


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), name)
