"""What worker and lane say to each other: one JSON object a line, each way."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from memory_tencentdb_worker.endpoints import Kind


@dataclass(frozen=True)
class LaneCall:
    """One model call. The key travels here and nowhere else."""

    id: int
    model: str
    base_url: str
    api_key: str
    system: str
    user: str
    max_tokens: int
    timeout_seconds: float
    json_mode: bool
    fields: dict[str, object] = field(default_factory=dict)  # extra request fields, at the top level
    without: tuple[str, ...] = ()  # parameters that this endpoint is known to reject

    def line(self) -> bytes:
        return to_line(asdict(self))


@dataclass(frozen=True)
class LaneAnswer:
    """The outcome of a call. `failure` "" means that `text` is the answer."""

    id: int
    text: str = ""
    finish_reason: str = ""
    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    rejected: tuple[str, ...] = ()  # parameters that the endpoint refused on the way
    failure: Kind | str = ""
    code: str = ""
    message: str = ""
    retry_after_seconds: float | None = None

    def line(self) -> bytes:
        return to_line(asdict(self))


@dataclass(frozen=True)
class LaneReady:
    """The lane's first line. `error` not empty: it cannot work at all."""

    error: str = ""
    warning: str = ""

    def line(self) -> bytes:
        return to_line(asdict(self))


def to_line(document: dict[str, object]) -> bytes:
    return json.dumps(document).encode("ascii") + b"\n"


def read_call(line: bytes) -> LaneCall:
    document = json.loads(line)
    document["without"] = tuple(document["without"])
    return LaneCall(**document)


def read_answer(line: bytes) -> LaneAnswer:
    document = json.loads(line)
    document["rejected"] = tuple(document["rejected"])
    return LaneAnswer(**document)


def read_ready(line: bytes) -> LaneReady:
    return LaneReady(**json.loads(line))
