"""Bodies of the fourteen v2 routes, with the original's limits, and the envelope of their answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from memory_tencentdb_worker.models import AtomType

Text = Annotated[str, Field(min_length=1, max_length=8192)]
Query = Annotated[str, Field(min_length=1, max_length=2048)]
Session = Annotated[str, Field(min_length=1, max_length=500)]
Ids = Annotated[list[Annotated[str, Field(max_length=200)]], Field(min_length=1, max_length=100)]
Limit = Annotated[int, Field(ge=1, le=100)]
Offset = Annotated[int, Field(ge=0, le=10**9)]
Document = Annotated[str, Field(min_length=1, max_length=80_000)]  # in any JSON spelling below the limit of a body
Instant = str | int | None


class Body(BaseModel):
    """A null counts as absent; unknown fields are ignored, as by the original."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        return {name: one for name, one in value.items() if one is not None} if isinstance(value, dict) else value


class Window(Body):
    """`time_end` is included. ISO 8601 or epoch milliseconds."""

    time_start: Instant = None
    time_end: Instant = None


class Said(Body):
    role: Literal["user", "assistant", "system"]
    content: Text
    timestamp: Instant = None


class ConversationAdd(Body):
    session_id: Session
    messages: Annotated[list[Said], Field(min_length=1, max_length=100)]


class ConversationQuery(Window):
    session_id: Session | None = None
    limit: Limit = 20
    offset: Offset = 0


class ConversationSearch(Window):
    query: Query
    limit: Limit = 5
    session_id: Session | None = None


class ConversationDelete(Body):
    message_ids: Ids | None = None
    session_id: Session | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> ConversationDelete:
        if (self.message_ids is None) == (self.session_id is None):
            raise ValueError("exactly one of message_ids and session_id says what")
        return self


class AtomicUpdate(Body):
    id: Annotated[str, Field(min_length=1, max_length=200)]
    content: Text


class AtomicQuery(Window):
    type: AtomType | None = None
    limit: Limit = 20
    offset: Offset = 0


class AtomicSearch(Window):
    query: Query
    limit: Limit = 5
    type: AtomType | None = None


class AtomicDelete(Body):
    ids: Ids


class ScenarioList(Body):
    path_prefix: Annotated[str, Field(max_length=500)] = ""


class ScenarioPath(Body):
    """A scene's file, relative to the scenes' directory."""

    path: Annotated[str, Field(min_length=1, max_length=500)]

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        if path.startswith("/") or "\\" in path or ".." in path.split("/"):
            raise ValueError("must be relative and without ..")
        return path


class ScenarioWrite(ScenarioPath):
    content: Document
    summary: Annotated[str, Field(max_length=2000)] = ""


class CoreWrite(Body):
    content: Document


class Envelope(BaseModel):
    code: Literal[0] = 0
    message: str = "ok"
    request_id: str
    data: dict[str, Any]


class ErrorEnvelope(BaseModel):
    """`code` is the HTTP status; `error` is the code that other routes give."""

    code: int
    message: str
    request_id: str
    error: str
