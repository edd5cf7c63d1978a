"""What a store must do, in whole transactions. One contract suite (`tests/contracts`) runs on every backend.

Every method is one transaction: it happened or it did not. A store raises StoreError (or StoreFull, StoreCorrupt)
when it fails; it never answers "empty" instead. Reads see committed data only. `now` is always given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from memory_tencentdb_worker.models import (
    Atom,
    AtomChanges,
    AtomHit,
    CallTotals,
    Counts,
    Due,
    EmbeddingSpace,
    FailingJob,
    Filter,
    JobCounts,
    JobKind,
    L1Batch,
    Layer,
    Lease,
    Message,
    MessageHit,
    ModelCall,
    NewTurn,
    Page,
    Parked,
    Persona,
    Rows,
    Scene,
    SceneChange,
    ScopeState,
    SessionState,
    StoreFacts,
    TextToEmbed,
    TurnReceipt,
    VectorCounts,
)

SessionPlan = Callable[[SessionState], Sequence[Due]]
"""Given the state after the change (inside the same transaction), says when the session's jobs are due.
Kinds it does not name keep their times."""

ScopePlan = Callable[[ScopeState], Sequence[Due]]


class Store(Protocol):
    @property
    def data_dir_id(self) -> str:
        """A random id made with the store; the handshake shows it."""
        ...

    def close(self) -> None:
        """Checkpoints the WAL and closes every connection. Safe to call twice."""
        ...

    def check_place(self) -> None:
        """Raises StoreError `store_moved` when the data directory is not (any more) the one that was opened."""
        ...

    def facts(self) -> StoreFacts:
        """Never waits and never raises: for the days when nothing else answers."""
        ...

    def probe(self) -> None:
        """Writes a little and changes nothing. Raises what any write would raise now."""
        ...

    def read_through(self) -> None:
        """Looks for damage in all of it. Raises StoreCorrupt. Takes seconds when large, in which others go on."""
        ...

    def back_up(self, now: int) -> str:
        """Makes a checked copy that `facts` names from then on, and returns where it is. Raises StoreError."""
        ...

    def checkpoint(self) -> bool:
        """Copies the WAL into the database as far as readers allow, for idle times; never waits. True: all of it."""
        ...

    # ---- L0
    def add_turn(self, turn: NewTurn, plan: SessionPlan, now: int) -> TurnReceipt:
        """Writes the turn, its index rows and its due jobs; the return means durable.

        A turn is the set of its messages: when the turn id is known in this session, only messages that the turn does
        not hold yet are added (counted by role and text, so that a repeated "ok" inside one turn is kept).
        """
        ...

    def session_tail(self, scope: str, session_key: str, limit: int) -> list[Message]:
        """The newest messages of a session, oldest first."""
        ...

    def turn_messages(self, scope: str, turn_id: str) -> list[Message]:
        """The messages of the turn with this id, in order; of several ones where sessions share the id."""
        ...

    def unextracted(self, scope: str, limit: int, session_key: str | None = None) -> list[Message]:
        """The newest messages that L1 has not read yet (or that are parked), newest first."""
        ...

    # ---- jobs
    def lease_job(
        self, kinds: Sequence[JobKind], now: int, lease_ms: int, owner: str, *, expedited_only: bool = False
    ) -> Lease | None:
        """Takes the job due longest, of the first of `kinds` that has one due; `expedited_only`: of those that a flush
        asked for. L2 and L3 of one scope never run side by side.

        While a job is leased its due time is free: work that arrives meanwhile sets it again, so no wake-up is lost.
        Every method that takes a lease raises StoreError (code lease_lost) once it is someone else's; `heartbeat`
        answers False.
        """
        ...

    def heartbeat(self, lease: Lease, leased_until: int) -> bool:
        """Extends a lease; False when it is no longer ours."""
        ...

    def finish_job(self, lease: Lease, due: Sequence[Due], now: int) -> None:
        """Nothing (more) to do. Clears attempts and error; `due` may arm it or a neighbour again."""
        ...

    def retry_job(self, lease: Lease, at: int, error: str, now: int) -> None:
        """Gives the lease back, due at `at` (or earlier if work arrived), with one attempt more."""
        ...

    def release_leases(self, owner: str, now: int) -> int:
        """Gives back every lease of this owner, due at once, attempts unchanged. Returns how many."""
        ...

    def recover_leases(self, now: int) -> int:
        """At start: every lease of a former worker is due now. Returns how many."""
        ...

    def next_due_at(self, kinds: Sequence[JobKind], *, expedited_only: bool = False) -> int | None:
        """The earliest time at which a job that is not leased is due or a lease runs out."""
        ...

    def pull_forward(self, kinds: Sequence[JobKind], now: int, longest_ms: int) -> int:
        """Jobs that are due later than `longest_ms` from now, which only a clock that was set back can leave behind,
        are due now. Returns how many."""
        ...

    def failing_jobs(self, limit: int = 5) -> list[FailingJob]:
        """Jobs that failed and are tried again, with their attempts and last error; the most tried first."""
        ...

    def make_due(
        self,
        now: int,
        *,
        scope: str | None = None,
        session_key: str | None = None,
        expedite: bool,
        parked: bool = False,
    ) -> int:
        """Makes pending work due now (sessions with unread turns: L1; with unread atoms: L2; changed scenes: L3;
        rows without vector: EMBED). `parked` also re-opens what was parked. Returns how many jobs are due."""
        ...

    def idle(self) -> bool:
        """No job due, leased or expedited for later, no unread turn, atom or changed scene that a flush would run."""
        ...

    def job_counts(self, now: int) -> JobCounts: ...

    def count_unsupported(self, items: int) -> None:
        """Adds to the number of items of model answers that were not accepted."""
        ...

    def unsupported(self) -> int: ...

    def last_extraction_at(self) -> int | None:
        """When a batch was last read by a model or by rules, whatever was found in it. None: never."""
        ...

    def jobs_done(self) -> int:
        """How many jobs were ever finished; a flush takes the difference."""
        ...

    # ---- L1
    def read_l1_batch(
        self, scope: str, session_key: str, *, max_messages: int, max_chars: int, background: int
    ) -> L1Batch | None:
        """The oldest unread turns, whole, at least one; a re-opened parked batch comes first. None: nothing unread."""
        ...

    def apply_atoms(
        self, lease: Lease, batch: L1Batch, changes: AtomChanges, plan: SessionPlan, now: int
    ) -> list[Atom]:
        """Atoms, supersessions, provenance, index rows, cursor, finished job and next due jobs in one transaction.

        A supersession keeps the old atom (superseded_at, valid_to) and hands its sources on to the new one; a new atom
        is valid from `valid_from`, else from its own first source. Returns the new atoms. An atom id that exists
        already is confirmed instead of added. Raises StoreError for an unknown id, a source of another scope, or one
        whose text is not what it was.
        """
        ...

    def add_atoms(self, scope: str, changes: AtomChanges, plan: SessionPlan, now: int) -> list[Atom]:
        """Atoms that come from outside the L1 job (the host's memory tool, an import), with the same guarantees."""
        ...

    def park_l1(self, lease: Lease, batch: L1Batch, reason: str, detail: str, plan: SessionPlan, now: int) -> None:
        """Sets the batch aside with its reason; the cursor goes on after it; `make_due(parked=True)` re-opens it."""
        ...

    def park_job(self, lease: Lease, reason: str, detail: str, now: int) -> None:
        """For L2, L3: keeps cursor and input, records the reason; new input or `make_due(parked=True)` tries again."""
        ...

    def list_parked(self, limit: int = 50) -> list[Parked]: ...

    # ---- L2
    def read_l2_batch(self, scope: str, session_key: str, limit: int) -> list[Atom]:
        """Live atoms of the session after its L2 cursor, oldest first."""
        ...

    def scenes(self, scope: str) -> list[Scene]:
        """Active scenes, hottest first, then by name."""
        ...

    def apply_scenes(
        self,
        lease: Lease,
        to_atom_seq: int,
        changes: Sequence[SceneChange],
        persona_request: str,
        session_plan: SessionPlan,
        scope_plan: ScopePlan,
        now: int,
    ) -> None:
        """New revisions, L2 cursor, finished job, next due jobs (also L3) in one transaction."""
        ...

    # ---- L3
    def persona(self, scope: str) -> Persona | None: ...

    def changed_scenes(self, scope: str) -> list[Scene]:
        """Active scenes with a revision newer than the persona."""
        ...

    def scope_state(self, scope: str) -> ScopeState: ...

    def apply_persona(self, lease: Lease, persona: Persona | None, scope_plan: ScopePlan, now: int) -> None:
        """A new revision (None: no change was needed), counters and finished job in one transaction."""
        ...

    def edit_documents(
        self, scope: str, scenes: Sequence[SceneChange], persona: Persona | None, evidence: NewTurn, now: int
    ) -> None:
        """A person changed files by hand: the new text becomes a revision that rests on `evidence`, an owner's turn."""
        ...

    # ---- search and reads
    def search_messages(self, query: str, filter: Filter, limit: int) -> list[MessageHit]:
        """Keyword search, best first. Any text is a safe query; one without a letter or digit finds nothing.

        A message is found by its own words, by those of its neighbours in its session, and by those of the atoms that
        rest on it. What `filter.prefer` names moves up.
        """
        ...

    def search_atoms(self, query: str, filter: Filter, limit: int) -> list[AtomHit]:
        """Keyword search over live atoms, best first; `filter.superseded` adds those that are no longer true."""
        ...

    def nearest_messages(
        self, vector: Sequence[float], filter: Filter, limit: int, space: EmbeddingSpace | None = None
    ) -> list[MessageHit]:
        """By cosine in the space that the vector is of, filtered before ranking. None: the space in use. StoreError
        when there is none, or `space` is neither that nor `former_space`.

        The score says how far a row stands out: 1 has the same direction, 0 is as near as the scope's rows usually are,
        whatever the model (`EmbeddingSpace.unrelated`)."""
        ...

    def nearest_atoms(
        self, vector: Sequence[float], filter: Filter, limit: int, space: EmbeddingSpace | None = None
    ) -> list[AtomHit]: ...

    def speakers(self, filter: Filter) -> frozenset[str]:
        """Names before messages (`Ann: ...`) of the scope or session, folded; of its newest threads at least."""
        ...

    def standing_instructions(self, scope: str) -> list[Atom]:
        """Live instruction atoms with priority -1, oldest first."""
        ...

    def message(self, scope: str | None, message_id: str) -> Message | None:
        """`scope` None looks in every scope: for the owner's own `why` and `inspect` only."""
        ...

    def atom(self, scope: str | None, atom_id: str) -> Atom | None: ...

    def scene(self, scope: str | None, name: str) -> Scene | None: ...

    def messages_by_id(self, message_ids: Sequence[str]) -> list[Message]: ...

    def atoms_by_id(self, atom_ids: Sequence[str]) -> list[Atom]: ...

    def list_rows(
        self,
        layer: Layer,
        page: Page,
        *,
        scope: str | None,
        session_key: str | None = None,
        role: str | None = None,
        type: str | None = None,
        priority_at_least: int | None = None,
    ) -> Rows:
        """For `inspect`."""
        ...

    def scopes(self) -> list[str]: ...

    def counts(self, scope: str | None = None) -> Counts: ...

    # ---- vectors
    def use_space(self, space: EmbeddingSpace | None) -> None:
        """From now on vectors belong to this space; None: no vectors. Old spaces are kept until it is whole."""
        ...

    @property
    def former_space(self) -> EmbeddingSpace | None:
        """The space to ask until the one in use is whole: what was there before it. None: there is none."""
        ...

    def texts_to_embed(self, limit: int) -> list[TextToEmbed]: ...

    def put_vectors(self, vectors: Sequence[tuple[TextToEmbed, Sequence[float] | None]], error: str, now: int) -> None:
        """None marks a refused text, which is not asked again in this space until `make_due(parked=True)`."""
        ...

    def vector_counts(self) -> VectorCounts: ...

    # ---- ledger
    def record_call(self, call: ModelCall) -> None: ...

    def calls_since(self, since: int) -> CallTotals: ...

    def host_model_used(self) -> bool:
        """Whether the host's own model was the one in use at last: a fact to go by after a restart, without its key."""
        ...

    def set_host_model_used(self, used: bool) -> None: ...

    # ---- projections
    def change_mark(self, scope: str) -> tuple[int, int, int, int]:
        """Grows whenever messages, atoms (new, confirmed, superseded), scenes or the persona of the scope change,
        one number each. Equal marks mean equal content."""
        ...

    def messages_between(self, scope: str, since: int, until: int) -> list[Message]:
        """Messages recorded in [since, until), in `seq` order."""
        ...

    def atoms_between(self, scope: str, since: int, until: int) -> list[Atom]:
        """Atoms recorded in [since, until), superseded ones too, in `seq` order."""
        ...

    def projection_hashes(self, scope: str) -> dict[str, str]:
        """File name -> hash of what was last written there, to tell a person's edit from our own text."""
        ...

    def set_projection_hash(self, scope: str, filename: str, hash: str | None) -> None:
        """None forgets the file."""
        ...
