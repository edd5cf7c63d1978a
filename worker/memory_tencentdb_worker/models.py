"""The domain in values: turns, messages, atoms, scenes, personas, jobs, and what a recall is made of.

Instants are integers: milliseconds since the epoch, UTC. Order is never read from them; it comes from `seq`, the
store's own counter. A scope is the user id of the data directory's profile, exact and case-sensitive; "" is the
default user.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

BY_RULES = "rules"
"""`Atom.extractor` of what the offline rules made, so that a model can later replace it."""


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"


class Origin(StrEnum):
    """Who wrote a text, set at the edge. Only USER may become a persona or instruction atom (issue 6, trap B104)."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    WEB = "web"
    IMPORTED = "imported"
    BUILTIN_MEMORY = "builtin-memory"  # the host's own MEMORY.md / USER.md, mirrored by on_memory_write
    OWNER_EDIT = "owner-edit"  # a person changed a scene or persona file by hand


OF_OTHERS = frozenset({Origin.ASSISTANT, Origin.TOOL, Origin.WEB})
"""What was said by nobody whose memory this is: it tells what happened, never who the user is or what shall be done."""


class AtomType(StrEnum):
    PERSONA = "persona"
    EPISODIC = "episodic"
    INSTRUCTION = "instruction"


class Layer(StrEnum):
    L0 = "L0"
    L1 = "L1"
    L2 = "L2"
    L3 = "L3"


class JobKind(StrEnum):
    """L1 and L2 jobs belong to a session; L3 to a scope (session_key ""); EMBED to the whole store (scope "")."""

    L1 = "l1"
    L2 = "l2"
    L3 = "l3"
    EMBED = "embed"


# ------------------------------------------------------------------------------------------------------ L0


@dataclass(frozen=True)
class NewMessage:
    role: Role
    text: str  # cleaned; not empty
    sent_at: int
    origin: Origin
    suspicions: tuple[str, ...] = ()  # why it is held back from extraction and recall (text/suspicion.py)


@dataclass(frozen=True)
class NewTurn:
    scope: str
    turn_id: str  # made by the client, unique in its session: the key of idempotency
    session_key: str
    session_id: str
    messages: tuple[NewMessage, ...]
    captured_at: int
    source: str  # "provider", "http", "cli", "memory-write", ...


@dataclass(frozen=True)
class TurnReceipt:
    turn_id: str
    duplicate: bool  # the turn was known and brought nothing new
    recorded: int  # messages written by this call
    message_ids: tuple[str, ...]  # all messages of the turn, in order
    withheld: str = ""  # why some of it was not taken: "paused", "forgotten"


@dataclass(frozen=True)
class Message:
    seq: int
    id: str
    scope: str
    turn_id: str
    session_key: str
    session_id: str
    role: Role
    origin: Origin
    text: str
    hash: str  # sha256 hex of the text, made when it was stored
    sent_at: int
    recorded_at: int


# ------------------------------------------------------------------------------------------------------ L1


@dataclass(frozen=True)
class Source:
    """One message an atom rests on, with the hash its text had at that time."""

    message_id: str
    message_hash: str


@dataclass(frozen=True)
class NewAtom:
    id: str
    type: AtomType
    content: str
    priority: int  # 0..100, or -1: a rule that always holds
    scene_name: str
    origin: Origin
    sources: tuple[Source, ...]
    session_key: str
    session_id: str
    activity_start: int | None = None
    activity_end: int | None = None
    valid_from: int | None = None  # when it began to be true; None: since the first source was said


@dataclass(frozen=True)
class Atom:
    seq: int
    id: str
    scope: str
    type: AtomType
    content: str
    priority: int
    scene_name: str
    origin: Origin
    extractor: str  # "model:<name>", "rules", "builtin-memory", ...
    session_key: str
    session_id: str
    activity_start: int | None
    activity_end: int | None
    valid_from: int
    valid_to: int | None
    recorded_from: int
    superseded_at: int | None
    superseded_by: str | None
    sources: tuple[Source, ...] = ()

    @property
    def live(self) -> bool:
        return self.superseded_at is None


@dataclass(frozen=True)
class L1Batch:
    """Messages to extract, oldest first, with a little context before them. Always whole turns."""

    scope: str
    session_key: str
    session_id: str
    background: tuple[Message, ...]
    messages: tuple[Message, ...]
    previous_scene: str
    parked_id: int | None = None  # set when this batch was parked before and is tried again
    reread: bool = False  # rules have read it before, a model has not

    @property
    def to_seq(self) -> int:
        return self.messages[-1].seq


@dataclass(frozen=True)
class AtomChanges:
    """What one L1 run does: new atoms, atoms that replace others, and further sources for known ones."""

    add: tuple[NewAtom, ...] = ()
    supersede: tuple[tuple[str, str], ...] = ()  # (id of the older atom, id of the later one)
    confirm: tuple[tuple[str, tuple[Source, ...]], ...] = ()  # (id of a known atom, sources that say it again)
    close: tuple[str, ...] = ()  # ids of atoms that stopped being true, without a successor
    closed_at: int | None = None  # when that was said; None: now
    scene_name: str = ""  # of the last segment; "" keeps the previous one
    extractor: str = ""


# ------------------------------------------------------------------------------------------------------ L2, L3


@dataclass(frozen=True)
class Line:
    text: str
    sources: tuple[str, ...]  # atom ids; a persona's lines may also name scenes; owner edits name message ids


@dataclass(frozen=True)
class Section:
    heading: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Scene:
    """The newest revision of one scene. `name` is its file name without `.md`."""

    scope: str
    name: str
    revision: int
    summary: str
    sections: tuple[Section, ...]
    heat: int  # 1 when made, +1 for an update, the sum + 1 for a merge (tdai.md 4)
    created_at: int
    updated_at: int
    status: str = "active"  # "active", "archived", "merged"
    merged_into: str | None = None


@dataclass(frozen=True)
class SceneChange:
    """One validated operation, already applied in memory: the scene as it shall be from now on."""

    op: str  # "create", "update", "merge", "archive", "edit", "rollback"
    scene: Scene
    absorbed: tuple[str, ...] = ()  # names of scenes merged into this one
    reason: str = ""


@dataclass(frozen=True)
class Persona:
    scope: str
    revision: int
    sections: tuple[Section, ...]
    created_at: int
    reason: str  # why it was written: the trigger, or "edit"


@dataclass(frozen=True)
class Revision:
    """One version of a scene, or of the persona, which has neither heat nor summary and is always active."""

    name: str
    revision: int
    at: int
    op: str
    reason: str
    sections: tuple[Section, ...]
    summary: str = ""
    heat: int = 0
    status: str = "active"
    created_at: int = 0


# ------------------------------------------------------------------------------------------------------ schedule


@dataclass(frozen=True)
class SessionState:
    """What the schedule needs to know of one session; counts are derived from the tables, never kept beside them."""

    scope: str
    session_key: str
    pending_turns: int  # turns with messages after the L1 cursor
    l1_runs: int  # finished L1 runs: the warm-up level
    pending_atoms: int  # live atoms after the L2 cursor
    last_active_at: int
    last_l2_at: int | None
    l1_due_at: int | None
    l2_due_at: int | None


@dataclass(frozen=True)
class ScopeState:
    scope: str
    atoms_since_persona: int
    scenes: int  # active ones
    scenes_processed: int  # finished L2 runs that changed something
    changed_scenes: int  # changed since the last persona
    has_persona: bool
    persona_request: str  # reason given by an L2 answer, "" when none
    l3_due_at: int | None


@dataclass(frozen=True)
class Due:
    """A job's time to run. `at` None: nothing to do."""

    kind: JobKind
    at: int | None


@dataclass(frozen=True)
class Lease:
    """A job that is ours until `leased_until`. A lease that runs out is due again."""

    job_id: int
    kind: JobKind
    scope: str
    session_key: str
    attempts: int  # failed tries before this one
    leased_until: int
    owner: str
    expedite: bool  # a flush: what follows from this job is due at once too
    token: int = 0  # the store's own: tells this lease from an earlier one of the same owner


@dataclass(frozen=True)
class JobCounts:
    due: int
    running: int
    retrying: int
    parked: int
    waiting: int  # scheduled for later
    oldest_due_at: int | None


@dataclass(frozen=True)
class Writer:
    """A thread at a write. `thread` is the system's number of it, `since` monotonic seconds."""

    thread: int
    since: float


@dataclass(frozen=True)
class StoreFacts:
    """The store's files, for `status` and for their upkeep."""

    path: str
    size_bytes: int
    wal_bytes: int  # of the write-ahead log, which grows while somebody reads an old state
    journal_mode: str
    network_mount: str  # "" on a local disk
    damage: str  # what was found damaged, "" as long as nothing was
    backup: str  # the newest one, "" when there is none
    backup_at: int | None
    writer: Writer | None = None  # who holds the one connection that writes


@dataclass(frozen=True)
class FailingJob:
    """A job that failed and is tried again. `due_at` None: it runs now."""

    kind: JobKind
    scope: str
    session_key: str
    attempts: int
    error: str
    due_at: int | None


@dataclass(frozen=True)
class Parked:
    id: int
    kind: JobKind
    scope: str
    session_key: str
    from_seq: int
    to_seq: int
    reason: str
    detail: str  # capped raw answer
    parked_at: int


# ------------------------------------------------------------------------------------------------------ ledger


@dataclass(frozen=True)
class ModelCall:
    """One line of the ledger."""

    at: int
    task: str
    scope: str
    model: str
    tokens_in: int
    tokens_out: int
    cost_usd: float
    elapsed_ms: int
    outcome: str  # "ok", or the class of error
    error: str = ""
    texts: int = 0  # of an embedding call
    estimated: bool = False  # the endpoint named no tokens: they are ours
    generation: str = ""  # the replay that it was made for
    about: tuple[int, int] | None = None  # as in the request


@dataclass(frozen=True)
class CallTotals:
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float


EMBEDDING_TASK = "embedding"
"""What a request to an embedding endpoint is called in the ledger."""


@dataclass(frozen=True)
class CallSum:
    """The calls of one task with one model."""

    task: str
    model: str
    calls: int
    failed: int
    texts: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    elapsed_ms: int
    estimated: int  # calls whose tokens are an estimate of ours


@dataclass(frozen=True)
class TextVolume:
    """What one session has to say to an extraction."""

    session_key: str
    scope: str
    messages: int
    chars: int
    bytes: int


# ------------------------------------------------------------------------------------------------------ embedding


@dataclass(frozen=True)
class EmbeddingSpace:
    """The identity of a space: vectors of two spaces are never compared."""

    provider: str
    model: str
    dimensions: int
    prefix: str = ""
    normalised: bool = True
    unrelated: float = field(default=0.0, compare=False)
    """The cosine that two texts without relation have in this model, where it is known; no part of the identity."""


@dataclass(frozen=True)
class TextToEmbed:
    layer: Layer  # L0 or L1
    seq: int
    text: str
    space: int = field(default=0, compare=False)  # the store's own: the space in which it lacks a vector


@dataclass(frozen=True)
class VectorCounts:
    rows: int  # what should have a vector in the current space
    embedded: int
    refused: int


# ------------------------------------------------------------------------------------------------------ search


@dataclass(frozen=True)
class Preference:
    """What a search would rather find. It moves hits up and never leaves one out."""

    spans: tuple[tuple[int, int], ...] = ()  # said, or true, in one of these
    role: Role | None = None  # said by
    latest: bool = False  # the newer the better


NO_PREFERENCE = Preference()


@dataclass(frozen=True)
class Filter:
    """What a search may see, and what it would rather see. There is no search without a scope."""

    scope: str
    session_key: str | None = None
    type: AtomType | None = None
    scene: str | None = None  # substring of the atom's theme, or the name of a scene it stands in; in any case
    before_seq: int | None = None  # messages only
    after_seq: int | None = None
    superseded: bool = False  # atoms only: also those that are no longer true
    as_of: int | None = None  # only what had been said by then and was valid then, as it was known then
    prefer: Preference = NO_PREFERENCE  # keyword search over messages only


@dataclass(frozen=True)
class MessageHit:
    message: Message
    score: float  # higher is better; comparable inside one answer only
    lifted: float | None = None  # by vector, and then in this order: with what speaks for the message beside it


@dataclass(frozen=True)
class AtomHit:
    atom: Atom
    score: float


@dataclass(frozen=True)
class Counts:
    turns: int
    messages: int
    atoms: int  # live ones
    superseded: int
    scenes: int
    personas: int
    vectors: int


@dataclass(frozen=True)
class Page:
    """How an inspection is cut: newest first unless `ascending`."""

    limit: int = 50
    offset: int = 0
    ascending: bool = False
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True)
class Rows:
    """One page of an inspection and how many rows there are in all."""

    rows: tuple[Message | Atom | Scene | Persona, ...]
    total: int


@dataclass(frozen=True)
class Completion:
    """A model's answer as it came, with what it cost."""

    text: str
    finish_reason: str
    model: str
    tokens_in: int
    tokens_out: int
    cost_usd: float
    elapsed_ms: int


@dataclass(frozen=True)
class CompletionRequest:
    """One model call. `system` begins with the marker line of CONTRACT section 9."""

    task: str
    system: str
    user: str
    max_tokens: int
    timeout_seconds: float
    model: str = ""  # "" takes the configured one
    json_mode: bool = True
    extra: dict[str, object] = field(default_factory=dict)
    scope: str = ""  # whose memory the call serves, for the ledger
    generation: str = ""  # the replay it is made for, for the ledger
    about: tuple[int, int] | None = None
    """For the ledger: first and last `seq` of the messages (L1) or atoms (L2) that it is about, all of one session, or
    the number of the persona's revision (L3), twice."""
