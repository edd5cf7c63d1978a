"""The reading half of the store on SQLite: each method is one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import (
    Atom,
    AtomHit,
    CallSum,
    CallTotals,
    Counts,
    EmbeddingSpace,
    FailingJob,
    Filter,
    JobCounts,
    JobKind,
    L1Batch,
    Layer,
    Message,
    MessageHit,
    Page,
    Parked,
    Persona,
    Revision,
    Rows,
    Scene,
    ScopeState,
    StoreFacts,
    TextToEmbed,
    TextVolume,
    VectorCounts,
)
from memory_tencentdb_worker.store import (
    atoms,
    audit,
    documents,
    jobs,
    ledger,
    parking,
    pauses,
    pending,
    quarantine,
    reads,
    rule_reads,
    search,
    sessions,
    turns,
    vectors,
    wishes,
)
from memory_tencentdb_worker.store.audit import Change
from memory_tencentdb_worker.store.backups import file_facts
from memory_tencentdb_worker.store.connection import Database, first_value
from memory_tencentdb_worker.store.file_reads import FileReads
from memory_tencentdb_worker.store.migrations import read_through
from memory_tencentdb_worker.store.pauses import Pause
from memory_tencentdb_worker.store.quarantine import Suspect
from memory_tencentdb_worker.store.search_memory import SearchMemory
from memory_tencentdb_worker.store.spaces import OpenSpace
from memory_tencentdb_worker.store.wishes import Wish
from memory_tencentdb_worker.text.segment import query_terms

WARM_FROM_MESSAGES = 20_000
"""A smaller store costs its first question a few milliseconds, and a worker that nobody asks need not load numpy."""


class SqliteReader(FileReads):
    """What can be asked. Never waits for a writer."""

    def __init__(self, database: Database, opened_at: int = 0) -> None:
        super().__init__(database)
        self._opened_at = opened_at
        self._space: int | None = None
        self._search = SearchMemory()
        self._reread = False
        self._spaces: tuple[OpenSpace, ...] = ()  # the one in use, then the former one while it still answers
        with database.read() as connection:
            self._data_dir_id = str(first_value(connection, "select value from meta where key = 'data_dir_id'"))

    @property
    def data_dir_id(self) -> str:
        return self._data_dir_id

    @property
    def vectors_problem(self) -> str:
        """Why vectors cannot be used; "" when they can."""
        return "" if find_spec("numpy") else "numpy is not installed"

    def facts(self) -> StoreFacts:
        return file_facts(self._database)

    def check_place(self) -> None:
        self._database.check_place()

    def read_through(self) -> None:
        read_through(self._database)

    def warm_search(self) -> None:
        with self._database.read() as connection:
            if int(first_value(connection, "select max(seq) from messages") or 0) >= WARM_FROM_MESSAGES:
                self._search.messages.read(connection)

    # ---- turns, jobs
    def session_tail(self, scope: str, session_key: str, limit: int) -> list[Message]:
        with self._database.read() as connection:
            return turns.newest_messages(connection, scope, session_key, limit)

    def turn_messages(self, scope: str, turn_id: str) -> list[Message]:
        with self._database.read() as connection:
            return turns.messages_of_turn(connection, scope, turn_id)

    def unextracted(self, scope: str, limit: int, session_key: str | None = None) -> list[Message]:
        with self._database.read() as connection:
            return turns.unread_messages(connection, scope, limit, session_key)

    def next_due_at(self, kinds: Sequence[JobKind], *, expedited_only: bool = False) -> int | None:
        with self._database.read() as connection:
            return jobs.next_due(connection, kinds, expedited_only=expedited_only)

    def failing_jobs(self, limit: int = 5) -> list[FailingJob]:
        with self._database.read() as connection:
            return jobs.failing_jobs(connection, limit)

    def idle(self) -> bool:
        with self._database.read() as connection:
            return pending.is_idle(connection, self._space, reread=self._reread)

    def job_counts(self, now: int) -> JobCounts:
        with self._database.read() as connection:
            return jobs.job_counts(connection, now)

    def job_loads(self, now: int) -> dict[str, tuple[int, int]]:
        with self._database.read() as connection:
            return jobs.job_loads(connection, now)

    def unsupported(self) -> int:
        with self._database.read() as connection:
            return int(first_value(connection, "select value from meta where key = 'unsupported'") or 0)

    def last_extraction_at(self) -> int | None:
        with self._database.read() as connection:
            value = first_value(connection, "select value from meta where key = 'last_extraction_at'")
            return None if value is None else int(value)

    def jobs_done(self) -> int:
        with self._database.read() as connection:
            return int(first_value(connection, "select value from meta where key = 'jobs_done'"))

    def read_l1_batch(
        self, scope: str, session_key: str, *, max_messages: int, max_chars: int, background: int
    ) -> L1Batch | None:
        with self._database.read() as connection:
            return turns.read_batch(
                connection,
                scope,
                session_key,
                max_messages=max_messages,
                max_chars=max_chars,
                background=background,
                reread=self._reread,
            )

    def rule_made_atoms(self, batch: L1Batch) -> list[Atom]:
        with self._database.read() as connection:
            return rule_reads.atoms_of_batch(connection, batch)

    def turns_to_reread(self) -> int:
        if not self._reread:
            return 0
        with self._database.read() as connection:
            return rule_reads.count_turns(connection)

    def pauses(self, now: int) -> list[Pause]:
        with self._database.read() as connection:
            return pauses.in_force(connection, now)

    def wishes(self) -> list[Wish]:
        with self._database.read() as connection:
            return wishes.open_wishes(connection)

    def quarantine_states(self, seqs: Sequence[int]) -> dict[int, str]:
        with self._database.read() as connection:
            return quarantine.states(connection, seqs)

    def quarantined(self, scope: str) -> frozenset[int]:
        with self._database.read() as connection:
            return quarantine.held_seqs(connection, scope)

    def count_suspects(self) -> tuple[int, int | None]:
        with self._database.read() as connection:
            return quarantine.count_held(connection)

    def suspects(self, state: str | None, scope: str | None, limit: int) -> list[Suspect]:
        with self._database.read() as connection:
            return quarantine.suspects(connection, state, scope, limit)

    def suspect(self, message_id: str) -> Suspect | None:
        with self._database.read() as connection:
            return quarantine.suspect(connection, message_id)

    def changes_made(self, limit: int, scope: str | None = None) -> list[Change]:
        with self._database.read() as connection:
            return audit.newest_changes(connection, limit, scope)

    def list_parked(self, limit: int = 50) -> list[Parked]:
        with self._database.read() as connection:
            return parking.list_open(connection, limit)

    # ---- layers
    def read_l2_batch(self, scope: str, session_key: str, limit: int) -> list[Atom]:
        with self._database.read() as connection:
            return atoms.unread_atoms(connection, scope, session_key, limit)

    def scenes(self, scope: str) -> list[Scene]:
        with self._database.read() as connection:
            return documents.active_scenes(connection, scope)

    def changed_scenes(self, scope: str) -> list[Scene]:
        with self._database.read() as connection:
            return documents.active_scenes(connection, scope, changed_only=True)

    def persona(self, scope: str) -> Persona | None:
        with self._database.read() as connection:
            return documents.newest_persona(connection, scope)

    def scope_state(self, scope: str) -> ScopeState:
        with self._database.read() as connection:
            return sessions.scope_state(connection, scope)

    # ---- search
    def search_messages(self, query: str, filter: Filter, limit: int) -> list[MessageHit]:
        terms = query_terms(query)
        with self._database.read() as connection:
            return search.search_messages(connection, self._search, terms, filter, limit)

    def search_atoms(self, query: str, filter: Filter, limit: int) -> list[AtomHit]:
        terms = query_terms(query)
        with self._database.read() as connection:
            return search.search_atoms(connection, self._search, terms, filter, limit)

    def nearest_messages(
        self,
        vector: Sequence[float],
        filter: Filter,
        limit: int,
        space: EmbeddingSpace | None = None,
        *,
        query: str = "",
    ) -> list[MessageHit]:
        asked, terms = self._open_space(space), query_terms(query)
        index = asked.index
        from memory_tencentdb_worker.store.vector_search import nearest_messages

        with self._database.read() as connection:
            return nearest_messages(connection, index, self._search, asked.number, vector, filter, limit, terms)

    def nearest_atoms(
        self, vector: Sequence[float], filter: Filter, limit: int, space: EmbeddingSpace | None = None
    ) -> list[AtomHit]:
        asked = self._open_space(space)
        index = asked.index
        from memory_tencentdb_worker.store.vector_search import nearest_atoms

        with self._database.read() as connection:
            return nearest_atoms(connection, index, asked.number, vector, filter, limit)

    def speakers(self, filter: Filter) -> frozenset[str]:
        with self._database.read() as connection:
            return search.speakers(connection, filter)

    # ---- reads
    def standing_instructions(self, scope: str, as_of: int | None = None) -> list[Atom]:
        with self._database.read() as connection:
            return reads.standing_instructions(connection, scope, as_of)

    def atoms_known_at(self, scope: str, as_of: int, limit: int) -> list[Atom]:
        with self._database.read() as connection:
            return reads.atoms_known_at(connection, scope, as_of, limit=limit)

    def scene_revisions(self, scope: str, name: str) -> list[Revision]:
        with self._database.read() as connection:
            return documents.scene_revisions(connection, scope, name)

    def persona_revisions(self, scope: str) -> list[Revision]:
        with self._database.read() as connection:
            return documents.persona_revisions(connection, scope)

    def documents_at(self, scope: str, as_of: int) -> tuple[Persona | None, list[Scene]]:
        with self._database.read() as connection:
            return documents.documents_at(connection, scope, as_of)

    def message(self, scope: str | None, message_id: str) -> Message | None:
        with self._database.read() as connection:
            return next(iter(reads.messages_by_id(connection, [message_id], scope)), None)

    def atom(self, scope: str | None, atom_id: str) -> Atom | None:
        with self._database.read() as connection:
            return next(iter(reads.atoms_by_id(connection, [atom_id], scope)), None)

    def scene(self, scope: str | None, name: str) -> Scene | None:
        with self._database.read() as connection:
            return documents.newest_scene_named(connection, scope, name)

    def messages_by_id(self, message_ids: Sequence[str]) -> list[Message]:
        with self._database.read() as connection:
            return reads.messages_by_id(connection, message_ids)

    def atoms_by_id(self, atom_ids: Sequence[str]) -> list[Atom]:
        with self._database.read() as connection:
            return reads.atoms_by_id(connection, atom_ids)

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
        with self._database.read() as connection:
            if layer is Layer.L0:
                return reads.list_messages(connection, page, scope, session_key, role)
            if layer is Layer.L1:
                return reads.list_atoms(connection, page, scope, session_key, type, priority_at_least, as_of)
            return reads.list_documents(connection, layer, page, scope)

    def scopes(self) -> list[str]:
        with self._database.read() as connection:
            return reads.all_scopes(connection)

    def counts(self, scope: str | None = None) -> Counts:
        with self._database.read() as connection:
            return reads.count_all(connection, scope, self._space)

    # ---- vectors, ledger
    @property
    def former_space(self) -> EmbeddingSpace | None:
        return self._spaces[1].identity if len(self._spaces) > 1 else None

    def texts_to_embed(self, limit: int) -> list[TextToEmbed]:
        with self._database.read() as connection:
            return vectors.queued_texts(connection, self._space, limit) if self._space is not None else []

    def vector_counts(self) -> VectorCounts:
        with self._database.read() as connection:
            return vectors.vector_counts(connection, self._space)

    def calls_since(self, since: int, *, with_embedding: bool = True, generation: str | None = None) -> CallTotals:
        with self._database.read() as connection:
            return ledger.total_calls(connection, since, with_embedding=with_embedding, generation=generation)

    def call_sums(self, since: int, until: int) -> list[CallSum]:
        with self._database.read() as connection:
            return ledger.call_sums(connection, since, until)

    def first_call_at(self) -> int | None:
        with self._database.read() as connection:
            return ledger.first_call_at(connection)

    def text_volumes(self, scope: str | None) -> list[TextVolume]:
        with self._database.read() as connection:
            return ledger.text_volumes(connection, scope)

    def host_model_used(self) -> bool:
        with self._database.read() as connection:
            return ledger.host_model_used(connection)

    def _space_in_use(self) -> int:
        if self._space is None:
            raise StoreError("no embedding space is in use", code="no_space")
        return self._space

    def _open_space(self, space: EmbeddingSpace | None) -> OpenSpace:
        """None: the one in use."""
        for one in self._spaces:
            if space in (None, one.identity):
                return one
        raise StoreError("this embedding space is not in use", code="no_space")
