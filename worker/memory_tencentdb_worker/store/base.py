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
    CallSum,
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
    Revision,
    Rows,
    Scene,
    SceneChange,
    ScopeState,
    SessionState,
    StoreFacts,
    TextToEmbed,
    TextVolume,
    TurnReceipt,
    VectorCounts,
)
from memory_tencentdb_worker.store.audit import Change
from memory_tencentdb_worker.store.pauses import Pause
from memory_tencentdb_worker.store.quarantine import Suspect
from memory_tencentdb_worker.store.turn_record import TurnRecord
from memory_tencentdb_worker.store.wishes import Wish
from memory_tencentdb_worker.text.times import LATEST_MS

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

    def warm_search(self) -> None:
        """Reads now what the first question of a large store would have to wait for."""
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

    def use_rereading(self, on: bool) -> None:
        """From now on, until this store is closed, what only rules have read counts as unread, behind everything that
        is really unread. Off at first."""
        ...

    def arm_reread(self, now: int) -> bool:
        """Makes one session due that is to be read again, the one first that rules have read first; one with unread
        turns or a failed try waits. False when there is none."""
        ...

    def turns_to_reread(self) -> int:
        """How many turns only rules have read; 0 while they are not to be read again."""
        ...

    def idle(self) -> bool:
        """No job due, leased or expedited for later, no unread turn, atom or changed scene that a flush would run."""
        ...

    def job_counts(self, now: int) -> JobCounts: ...

    def job_loads(self, now: int) -> dict[str, tuple[int, int]]:
        """By kind of job: how many are due, and how many are running."""
        ...

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
        """The oldest unread turns, whole, at least one; a re-opened parked batch comes first, one that is to be read
        again (`use_rereading`) last. None: nothing unread."""
        ...

    def rule_made_atoms(self, batch: L1Batch) -> list[Atom]:
        """The atoms, superseded ones too, that rules have made from the batch's messages; without those that also rest
        on messages of which another batch is to be read again."""
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

    # ---- the owner's hand
    def pause(self, scope: str | None, session: str | None, since: int, until: int | None, now: int) -> Pause:
        """From then on, or in that span, `add_turn` takes nothing in (`TurnReceipt.withheld`), whenever it comes."""
        ...

    def resume(self, scope: str | None, session: str | None, now: int) -> list[Pause]:
        """Ends pauses now; what was said in them stays out. Returns which."""
        ...

    def pauses(self, now: int) -> list[Pause]: ...

    def add_wish(self, wish: Wish, now: int) -> int:
        """Something a person asked to be forgotten waits for the owner."""
        ...

    def settle_wish(self, id: int, now: int) -> None: ...

    def wishes(self) -> list[Wish]: ...

    def hold_messages(self, suspects: Sequence[tuple[Message, Sequence[str]]], now: int) -> None:
        """With the reasons of each. Neither extracted nor recalled until a person has decided; what one has decided
        before stays so."""
        ...

    def settle_suspect(self, message: Message, state: str, now: int) -> None:
        """A released one is read by L1 (again) at once; a dropped one stays where only a search finds it."""
        ...

    def quarantine_states(self, seqs: Sequence[int]) -> dict[int, str]:
        """Of those of these messages that were ever held back."""
        ...

    def quarantined(self, scope: str) -> frozenset[int]:
        """`seq` of the messages that recall leaves out."""
        ...

    def count_suspects(self) -> tuple[int, int | None]:
        """How many wait for a person, and since when the oldest does."""
        ...

    def suspects(self, state: str | None, scope: str | None, limit: int) -> list[Suspect]:
        """The newest first; None: in any state, of any scope."""
        ...

    def suspect(self, message_id: str) -> Suspect | None: ...

    def changes_made(self, limit: int, scope: str | None = None) -> list[Change]:
        """Of the audit, the newest first."""
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
        self,
        scope: str,
        scenes: Sequence[SceneChange],
        persona: Persona | None,
        evidence: NewTurn,
        now: int,
        facts: AtomChanges | None = None,
        action: str = "edit",
    ) -> None:
        """A person changed documents by hand: the new text becomes a revision that rests on `evidence`, an owner's
        turn, or on the atoms of `facts`, which that turn brought and which stand in a scene already. `action` names
        the change in the audit."""
        ...

    def scene_revisions(self, scope: str, name: str) -> list[Revision]:
        """The newest first; [] for a name that no scene ever had."""
        ...

    def persona_revisions(self, scope: str) -> list[Revision]: ...

    # ---- search and reads
    def search_messages(self, query: str, filter: Filter, limit: int) -> list[MessageHit]:
        """Keyword search, best first. Any text is a safe query; one without a letter or digit finds nothing.

        A message is found by its own words, by those of its neighbours in its session, and by those of the atoms that
        rest on it. What `filter.prefer` names moves up.
        """
        ...

    def search_atoms(self, query: str, filter: Filter, limit: int) -> list[AtomHit]:
        """Keyword search over live atoms, best first; `filter.superseded` adds those that are no longer true, and
        `filter.as_of` asks for those that were known then."""
        ...

    def nearest_messages(
        self,
        vector: Sequence[float],
        filter: Filter,
        limit: int,
        space: EmbeddingSpace | None = None,
        *,
        query: str = "",
    ) -> list[MessageHit]:
        """By cosine in the space that the vector is of, filtered before ranking, and lifted by what neighbours,
        `filter.prefer` and a speaker named in `query` say for a message. None: the space in use. StoreError when there
        is none, or `space` is neither that nor `former_space`.

        The score says how far a row stands out: 1 has the same direction, 0 is as near as the scope's rows usually are,
        whatever the model (`EmbeddingSpace.unrelated`)."""
        ...

    def nearest_atoms(
        self, vector: Sequence[float], filter: Filter, limit: int, space: EmbeddingSpace | None = None
    ) -> list[AtomHit]: ...

    def speakers(self, filter: Filter) -> frozenset[str]:
        """Names before messages (`Ann: ...`) of the scope or session, folded; of its newest threads at least."""
        ...

    def standing_instructions(self, scope: str, as_of: int | None = None) -> list[Atom]:
        """Live instruction atoms with priority -1, oldest first; with `as_of` those known then."""
        ...

    def atoms_known_at(self, scope: str, as_of: int, limit: int) -> list[Atom]:
        """What had been said by then and held then, as it was known then: the last `limit` of it, in the order in
        which it was said. By the time of speech: when it was read makes no difference."""
        ...

    def documents_at(self, scope: str, as_of: int) -> tuple[Persona | None, list[Scene]]:
        """The persona and the active scenes as they had been written by then, the hottest scene first."""
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
        as_of: int | None = None,
    ) -> Rows:
        """For `inspect`. `as_of` is for atoms."""
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

    def calls_since(self, since: int, *, with_embedding: bool = True, generation: str | None = None) -> CallTotals:
        """`generation` counts one replay's only."""
        ...

    def call_sums(self, since: int, until: int) -> list[CallSum]:
        """Of [since, until), by task and model."""
        ...

    def turn_records(self, scope: str | None, turn_id: str) -> list[TurnRecord]:
        """What became of the turn; of several ones where sessions share the id. None: of every scope, for the owner."""
        ...

    def recorded_days(self, scope: str) -> list[int]:
        """Instants at which the UTC days begin on which messages or atoms were recorded."""
        ...

    def first_call_at(self) -> int | None: ...

    def text_volumes(self, scope: str | None) -> list[TextVolume]:
        """By session: what an extraction from the beginning would read. None: every scope's."""
        ...

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

    def messages_after(self, scope: str, seq: int, since: int = 0) -> tuple[int, list[Message]]:
        """Messages that came after this one and were recorded at `since` or later, in `seq` order, and the mark of
        messages (`change_mark`) at that very moment: whatever came or went later makes it differ."""
        ...

    def message_seqs(self, scope: str, since: int = 0, until: int = LATEST_MS) -> tuple[int, Sequence[int]]:
        """The numbers of messages recorded in [since, until), ascending, and the mark of messages at that very moment:
        for whoever goes through more than should be in memory at once."""
        ...

    def messages_by_seq(self, seqs: Sequence[int]) -> list[Message]:
        """In the order of the numbers; those that are gone are left out."""
        ...

    def atom_marks(self, scope: str) -> list[tuple[int, int]]:
        """When each atom was recorded, and a number that differs as soon as anything of it that a file shows does; in
        `seq` order. The numbers hold in this process only."""
        ...

    def atoms_between(self, scope: str, since: int, until: int, *, after_seq: int = 0, limit: int = -1) -> list[Atom]:
        """Atoms recorded in [since, until), superseded ones too, in `seq` order; at most `limit` behind `after_seq`."""
        ...

    def projection_hashes(self, scope: str) -> dict[str, str]:
        """File name -> hash of what was last written there, to tell a person's edit from our own text."""
        ...

    def set_projection_hash(self, scope: str, filename: str, hash: str | None) -> None:
        """None forgets the file."""
        ...
