"""What is wrong with one key of the configuration, as `status` lists it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ConfigProblem:
    key: str  # the dotted path as in the file
    value: Any  # masked when secret
    problem: str
    used: Any  # what holds instead
