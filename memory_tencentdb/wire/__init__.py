"""The bodies of requests and answers: one definition, used by both ends.

The worker validates with these dataclasses and the provider builds them, so the two cannot drift apart. Fields are only
ever added, with a default. A package of its own, imported where a request is made: the host runs every module at the
top of the provider's folder when it starts, and making dataclasses takes milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar


@dataclass
class HostModel:
    """The host's own model, offered at the handshake; kept in memory only."""

    base_url: str = ""
    api_key: str = field(default="", repr=False)
    model: str = ""
    provider: str = ""


@dataclass
class HelloRequest:
    protocol: int
    version: str
    client: str = ""  # "provider", "cli", ...
    host_model: HostModel | None = None


@dataclass
class HelloResponse:
    protocol: int
    version: str
    data_dir_id: str
    data_dir: str
    pid: int
    uid: int
    state: str


@dataclass
class CaptureRequest:
    user_content: Any  # text, or a host's list of content parts
    assistant_content: Any
    session_key: str
    session_id: str = ""
    user_id: str = ""
    messages: list[dict[str, Any]] | None = None
    turn_id: str = ""
    at: str | int | None = None  # ISO 8601, or epoch milliseconds
    source: str = ""
    user_origin: str = ""  # who wrote it: "user" (""), or "tool", "web", "imported", whose words are nobody's wishes
    assistant_origin: str = ""  # "assistant" (""), or "tool", "web": made with what tools or pages said


@dataclass
class CaptureResponse:
    l0_recorded: int
    scheduler_notified: bool
    turn_id: str
    duplicate: bool
    message_ids: list[str] = field(default_factory=list)
    reason: str = ""  # why some of it was not taken: "paused", "forgotten", "excluded"; there is no use in coming again


@dataclass
class RecallRequest:
    query: str
    session_key: str
    session_id: str = ""
    user_id: str = ""
    max_tokens: int | None = None
    deadline_ms: int | None = None
    exclude_ids: list[str] = field(default_factory=list)  # what this session has been given already
    visible_since: int | None = None  # epoch ms; what it said from then on still stands in the host's history
    as_of: str | int | None = None  # ISO 8601 or epoch milliseconds: what was known and valid then


@dataclass
class Item:
    """One memory in an answer. `at` is local ISO 8601 with offset."""

    id: str
    layer: str
    text: str
    score: float
    session_key: str
    at: str
    sources: list[str]
    type: str | None = None
    scene: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    role: str | None = None
    priority: int | None = None
    origin: str | None = None  # who wrote it: "user", "assistant", "tool", "web", "imported", ...


@dataclass
class GivenItem:
    id: str
    tokens: int


@dataclass
class DroppedItem:
    id: str
    reason: str


@dataclass
class Receipt:
    budget_tokens: int
    used_tokens: int
    given: list[GivenItem]
    dropped: list[DroppedItem]
    deadline_ms: int
    elapsed_ms: float
    arms: dict[str, Any]


@dataclass
class RecallResponse:
    context: str
    strategy: str
    memory_count: int
    append_system_context: str
    prepend_context: str
    items: list[Item]
    receipt: Receipt
    state: str
    as_of: str | None = None
    assembled: bool = False  # persona and scenes were put together for this answer, from what was known at `as_of`


@dataclass
class MemorySearchRequest:
    query: str
    limit: int | None = None
    type: str | None = None
    scene: str | None = None
    user_id: str = ""
    session_id: str = ""
    as_of: str | int | None = None


@dataclass
class ConversationSearchRequest:
    query: str
    limit: int | None = None
    session_key: str = ""
    user_id: str = ""
    as_of: str | int | None = None


@dataclass
class SearchResponse:
    results: str
    total: int
    strategy: str
    items: list[Item]
    state: str = ""  # of the worker, as in `status`
    as_of: str | None = None


@dataclass
class SessionEndRequest:
    session_key: str
    user_id: str = ""


@dataclass
class SessionEndResponse:
    flushed: bool
    jobs: int


@dataclass
class MemoryWriteRequest:
    """A committed write of the host's built-in memory tool."""

    action: str  # "add", "replace", "remove"
    target: str  # "memory", "user"
    content: str
    session_key: str
    session_id: str = ""
    user_id: str = ""
    old_text: str = ""
    write_id: str = ""
    at: str | int | None = None


@dataclass
class MemoryWriteResponse:
    atom_ids: list[str]
    superseded_ids: list[str]


@dataclass
class RescanRequest:
    """Secrets in what is stored already. Without `yes` nothing is changed."""

    yes: bool = False
    dry_run: bool = False


@dataclass
class ForgetRequest:
    """Exactly one of `id`, `ids`, `session`, `matching`, `before` and `pending` says what. Without `yes` nothing is
    done."""

    id: str = ""
    session: str = ""
    matching: str = ""
    before: str = ""  # ISO 8601
    pending: bool = False  # everything that was marked in conversations
    user_id: str | None = None
    dry_run: bool | None = None  # default: true, unless `yes`
    yes: bool = False
    backups: str = "delete"  # or "keep": copies that hold it
    ids: list[str] = field(default_factory=list)  # several of one user


@dataclass
class EditRequest:
    id: str
    content: str
    user_id: str | None = None


@dataclass
class UndoRequest:
    audit_id: int | None = None  # None: the newest change that can be undone
    user_id: str | None = None


@dataclass
class PauseRequest:
    """`session` may hold `*`. Without `user_id` everybody's memory pauses."""

    session: str = ""
    since: str = ""  # ISO 8601; default: now
    until: str = ""  # default: until `resume`
    user_id: str | None = None


@dataclass
class FlushRequest:
    session_key: str = ""
    user_id: str | None = None
    wait_seconds: float = 0
    parked: bool = False
    ask_again: bool = True  # an endpoint that is being left alone is asked once now


@dataclass
class FlushResponse:
    idle: bool
    jobs_done: int
    jobs_parked: int
    waited_seconds: float
    reasons: list[dict[str, Any]] = field(default_factory=list)  # when not idle: what holds work up, as in `status`


@dataclass
class RollbackRequest:
    """Puts a version of a scene, or of "persona", back."""

    name: str
    revision: int
    user_id: str = ""
    dry_run: bool = True


@dataclass
class WhyMessage:
    id: str
    role: str
    text: str
    at: str
    session_key: str
    hash_ok: bool


@dataclass
class WhyResponse:
    id: str
    layer: str
    text: str
    messages: list[WhyMessage]
    generation: str = ""  # not in use: of the generation with this id, kept for a rollback


@dataclass
class ReplayRequest:
    """`user_id` None: everybody's. `model` "": the one configured."""

    user_id: str | None = None
    model: str = ""
    dry_run: bool = False


@dataclass
class WhyNotRequest:
    """Asks about a recall as `/recall` would answer it."""

    id: str
    query: str
    session_key: str = ""
    session_id: str = ""
    user_id: str = ""
    max_tokens: int | None = None
    exclude_ids: list[str] = field(default_factory=list)


@dataclass
class WhyNotResponse:
    id: str
    layer: str
    query: str
    given: bool
    gate: str  # a code: the first gate that kept it out, "given" or "in_system_prompt" when none did
    message: str


T = TypeVar("T")


def decode(kind: type[T], body: dict[str, Any]) -> T:
    """Builds a flat answer from JSON; fields of a newer worker are ignored. Raises TypeError when one is missing."""
    known = {item.name for item in fields(kind)}  # type: ignore[arg-type]
    return kind(**{key: value for key, value in body.items() if key in known})
