"""Short names for the ids of one model call: `l0_7` and `m_3` instead of nineteen characters each, which cost tokens
in every line and are what small models copy wrongly."""

from __future__ import annotations

import re
from collections.abc import Mapping

_OURS = re.compile(r"(l0|m)_[0-9a-f]{16}")
_FIELDS = frozenset({"id", "record_id", "message_ids", "source_message_ids", "target_ids", "sources"})
"""Where an answer names ids (CONTRACT 9)."""


class ShortIds:
    """One for each question. An id of another form, such as one that was taken over, stands as it is."""

    def __init__(self) -> None:
        self._short: dict[str, str] = {}
        self._real: dict[str, str] = {}

    def short(self, id: str) -> str:
        """The same name for the same id, numbered in order of first mention."""
        ours = _OURS.fullmatch(id)
        if ours is None:
            return id
        if id not in self._short:
            name = f"{ours[1]}_{len(self._short) + 1}"
            self._short[id], self._real[name] = name, id
        return self._short[id]

    def restored(self, answer: object) -> object:
        """The answer with the ids that stand behind the names. What is no name stays, full ids too."""
        if isinstance(answer, Mapping):
            return {key: self._ids(item) if key in _FIELDS else self.restored(item) for key, item in answer.items()}
        return [self.restored(item) for item in answer] if isinstance(answer, list) else answer

    def _ids(self, value: object) -> object:
        if isinstance(value, str) and "," in value:
            value = value.split(",")
        if isinstance(value, list):
            return [self._ids(item) for item in value]
        return self._real.get(value.strip("[] "), value) if isinstance(value, str) else value
