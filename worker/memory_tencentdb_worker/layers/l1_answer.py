"""The shape of an extraction answer, read leniently item by item: one bad item never costs the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from memory_tencentdb_worker.errors import LLMContent
from memory_tencentdb_worker.llm.empty_talk import says_nothing
from memory_tencentdb_worker.models import AtomType

ALWAYS = -1
"""The priority of a rule that always holds; it stands above 100."""

DEFAULT_PRIORITY = 60
CONTENT_LIMIT = 2_000
_ALIASES = {
    "episode": AtomType.EPISODIC,
    "event": AtomType.EPISODIC,
    "instruct": AtomType.INSTRUCTION,
    "preference": AtomType.PERSONA,
    "profile": AtomType.PERSONA,
    "rule": AtomType.INSTRUCTION,
}
_SENTENCE_ENDS = ".!?。！？\n"


class Memory(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    content: str
    type: AtomType = AtomType.EPISODIC
    priority: int = DEFAULT_PRIORITY
    source_message_ids: list[str] = Field(default_factory=list)
    metadata: dict[str, object] = Field(default_factory=dict)

    @field_validator("content", mode="before")
    @classmethod
    def _content(cls, value: object) -> str:
        text = content_of(value)
        if not text:
            raise ValueError("no content")
        return text

    @field_validator("type", mode="before")
    @classmethod
    def _type(cls, value: object) -> AtomType:
        """A word that is no type does not cost the fact: episodic claims least."""
        return type_of(value) or AtomType.EPISODIC

    @field_validator("priority", mode="before")
    @classmethod
    def _priority(cls, value: object) -> int:
        return priority_of(value, DEFAULT_PRIORITY)

    @field_validator("source_message_ids", mode="before")
    @classmethod
    def _ids(cls, value: object) -> list[str]:
        return ids_of(value)

    @field_validator("metadata", mode="before")
    @classmethod
    def _metadata(cls, value: object) -> dict[str, object]:
        return {str(key): item for key, item in value.items()} if isinstance(value, Mapping) else {}


@dataclass(frozen=True)
class Segment:
    scene_name: str
    memories: tuple[Memory, ...]


@dataclass(frozen=True)
class Segments:
    segments: tuple[Segment, ...]
    refused: int


def read_segments(value: object) -> Segments:
    """The scenes of an answer. Memories without a scene around them count as one. Raises LLMContent for any other
    shape; an empty list is a valid "nothing to remember"."""
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list) or (value and not any(isinstance(item, Mapping) for item in value)):
        raise LLMContent("the answer is no list of scenes", code="wrong_shape")
    segments, refused, loose = [], 0, []
    for item in value:
        if isinstance(item, Mapping) and ("memories" in item or "content" not in item):
            segment, bad = _segment(item)
            segments.append(segment)
            refused += bad
        else:
            loose.append(item)
    memories, bad = _memories(loose)
    if memories:
        segments.append(Segment("", memories))
    return Segments(tuple(segments), refused + bad)


def content_of(value: object) -> str:
    """The text of a memory, at most 2,000 characters, cut after a sentence; "" for what says nothing and for
    anything that is no text."""
    if not isinstance(value, str):
        return ""
    text = value.strip()
    if says_nothing(text):
        return ""
    if len(text) <= CONTENT_LIMIT:
        return text
    end = max(text.rfind(mark, 0, CONTENT_LIMIT) for mark in _SENTENCE_ENDS)
    return text[: end + 1].strip() if end > CONTENT_LIMIT // 2 else text[:CONTENT_LIMIT].rstrip()


def type_of(value: object) -> AtomType | None:
    """None for what is no type."""
    word = value.strip().lower() if isinstance(value, str) else ""
    return AtomType(word) if word in tuple(AtomType) else _ALIASES.get(word)


def priority_of(value: object, default: int) -> int:
    """A whole number from 0 to 100, or -1; anything else is the default."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return default
    number = round(value)
    return number if number == ALWAYS or 0 <= number <= 100 else default


def ids_of(value: object) -> list[str]:
    """The ids of a list, of a text with commas, or a single one, each once, in order."""
    items = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    return list(dict.fromkeys(str(item).strip("[] ") for item in items if isinstance(item, str | int)))


def rank(priority: int) -> int:
    """Priorities in their true order: -1 above all."""
    return 101 if priority == ALWAYS else priority


def _segment(item: Mapping[object, object]) -> tuple[Segment, int]:
    memories, refused = _memories(item.get("memories"))
    name = item.get("scene_name")
    return Segment(name if isinstance(name, str) else "", memories), refused


def _memories(value: object) -> tuple[tuple[Memory, ...], int]:
    items = value if isinstance(value, list) else [] if value is None else [value]
    memories, refused = [], 0
    for item in items:
        try:
            memories.append(Memory.model_validate(item))
        except ValidationError:
            refused += 1
    return tuple(memories), refused
