"""What a rule hands back: one fact in the third person, before it becomes an atom."""

from __future__ import annotations

from dataclasses import dataclass

from memory_tencentdb_worker.models import AtomType

# The scale of the original (persona 80-100 core, 50-70 ordinary; episodic 80-100 important, 60-70 ordinary;
# instruction -1 always, 90-100 core).
HEALTH = 90
CORE = 80
RELATION = 65
ORDINARY = 60
DECISION = 80
EVENT = 70
ONE_OFF = 60
ALWAYS = -1
CORE_RULE = 90


@dataclass(frozen=True)
class Fact:
    type: AtomType
    content: str
    priority: int
    topic: str  # the scene name
    activity_start: int | None = None
    activity_end: int | None = None
