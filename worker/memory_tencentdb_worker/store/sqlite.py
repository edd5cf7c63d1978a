"""The store on SQLite: each method is one transaction around the functions of this folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from memory_tencentdb import faults
from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import (
    BY_RULES,
    Atom,
    AtomChanges,
    Due,
    EmbeddingSpace,
    JobKind,
    L1Batch,
    Layer,
    Lease,
    Message,
    ModelCall,
    NewTurn,
    Persona,
    SceneChange,
    TextToEmbed,
    TurnReceipt,
)
from memory_tencentdb_worker.store import (
    atoms,
    documents,
    generation_rows,
    generation_shadow,
    generation_swap,
    jobs,
    ledger,
    parking,
    pending,
    quarantine,
    reads,
    rule_reads,
    tombstones,
    turns,
    withholding,
)
from memory_tencentdb_worker.store import vectors as vector_rows
from memory_tencentdb_worker.store.backups import back_up
from memory_tencentdb_worker.store.base import ScopePlan, SessionPlan
from memory_tencentdb_worker.store.connection import Connection, Database, Row
from memory_tencentdb_worker.store.migrations import open_as_it_is, open_database
from memory_tencentdb_worker.store.owner_writes import OwnerWrites
from memory_tencentdb_worker.store.spaces import OpenSpace
from memory_tencentdb_worker.text.segment import index_text


def open_store(data_dir: Path, now: int) -> SqliteStore:
    """Opens the store of a data directory, making or migrating it. Raises SchemaTooNew, StoreCorrupt, StoreError."""
    return SqliteStore(open_database(data_dir, now), now)


def open_for_a_look(data_dir: Path, now: int) -> SqliteStore | None:
    """As `open_as_it_is` says."""
    database = open_as_it_is(data_dir)
    return None if database is None else SqliteStore(database, now)


class SqliteStore(OwnerWrites):
    """Store. Any thread may call any method; writes wait for each other, reads for nobody."""

    @property
    def database(self) -> Database:
        """For what lies beside the store in its data directory (`store/generations.py`)."""
        return self._database

    def close(self) -> None:
        self._database.close()

    def checkpoint(self) -> bool:
        return self._database.checkpoint()

    def probe(self) -> None:
        with self._database.write() as connection:
            connection.execute("update meta set value = value where key = 'data_dir_id'")

    def back_up(self, now: int) -> str:
        return str(back_up(self._database, now))

    # ---- L0
    def add_turn(self, turn: NewTurn, plan: SessionPlan, now: int) -> TurnReceipt:
        terms = {
            message: index_text(message.text) for message in turn.messages
        }  # before the lock: may load a dictionary
        with self._database.write(durable=True) as connection:
            kept, withheld = withholding.remembered(connection, self.stones, turn)
            receipt = turns.write_turn(connection, kept, [terms[one] for one in kept.messages], self._space, now)
            receipt = replace(receipt, withheld=withheld)
            if receipt.recorded:
                pending.run_plan(connection, turn.scope, turn.session_key, plan)
                if self._space is not None:
                    jobs.arm_embedding(connection, now)
            faults.reach("turn.before_commit")
        faults.reach("turn.after_commit")
        return receipt

    # ---- jobs
    def lease_job(
        self, kinds: Sequence[JobKind], now: int, lease_ms: int, owner: str, *, expedited_only: bool = False
    ) -> Lease | None:
        with self._database.write() as connection:
            return jobs.take_job(connection, kinds, now, lease_ms, owner, expedited_only=expedited_only)

    def pull_forward(self, kinds: Sequence[JobKind], now: int, longest_ms: int) -> int:
        with self._database.write() as connection:
            return jobs.pull_forward(connection, kinds, now, longest_ms)

    def count_unsupported(self, items: int) -> None:
        with self._database.write() as connection:
            jobs.count_unsupported(connection, items)

    def heartbeat(self, lease: Lease, leased_until: int) -> bool:
        with self._database.write() as connection:
            return jobs.extend_lease(connection, lease, leased_until)

    def finish_job(self, lease: Lease, due: Sequence[Due], now: int) -> None:
        with self._database.write() as connection:
            pending.close_job(connection, lease, now, reread=self._reread, dues=due)

    def retry_job(self, lease: Lease, at: int, error: str, now: int) -> None:
        with self._database.write() as connection:
            jobs.put_off(connection, lease, at, error)

    def release_leases(self, owner: str, now: int) -> int:
        with self._database.write() as connection:
            return jobs.free_leases(connection, now, owner)

    def recover_leases(self, now: int) -> int:
        with self._database.write() as connection:
            return jobs.free_leases(connection, now, None)

    def make_due(
        self,
        now: int,
        *,
        scope: str | None = None,
        session_key: str | None = None,
        expedite: bool,
        parked: bool = False,
    ) -> int:
        with self._database.write() as connection:
            return pending.request_all(
                connection,
                now,
                scope=scope,
                session_key=session_key,
                expedite=expedite,
                parked=parked,
                space=self._space,
                reread=self._reread,
            )

    def use_rereading(self, on: bool) -> None:
        self._reread = on

    def arm_reread(self, now: int) -> bool:
        if not self._reread:
            return False
        with self._database.read() as connection:
            session = rule_reads.next_session(connection, now)
        if session is None:
            return False
        with self._database.write() as connection:
            jobs.request_job(connection, JobKind.L1, *session, now, expedite=False)
        return True

    # ---- L1
    def apply_atoms(
        self, lease: Lease, batch: L1Batch, changes: AtomChanges, plan: SessionPlan, now: int
    ) -> list[Atom]:
        _check_batch(lease, batch)
        terms = {new.content: index_text(new.content) for new in changes.add}
        with self._database.write() as connection:
            jobs.check_lease(connection, lease)
            changes = tombstones.without_forgotten_facts(connection, self.stones, lease.scope, changes)
            added = atoms.write_changes(connection, lease.scope, changes, terms, self._space, now)
            if changes.extractor == BY_RULES:
                rule_reads.note_read(connection, batch)
            elif batch.reread:
                rule_reads.take_off(connection, batch)
            again = batch.reread or batch.parked_id is not None
            turns.move_cursor(connection, batch, "" if batch.reread else changes.scene_name, runs=0 if again else 1)
            if batch.parked_id is not None:
                parking.resolve_batch(connection, batch.parked_id, now)
            if changes.extractor:
                jobs.note_extraction(connection, now)
            pending.close_job(connection, lease, now, reread=self._reread, session_plan=plan)
            self._embed_soon(connection, added, now)
            faults.reach("atoms.before_commit")
        faults.reach("atoms.after_commit")
        return added

    def add_atoms(self, scope: str, changes: AtomChanges, plan: SessionPlan, now: int) -> list[Atom]:
        terms = {new.content: index_text(new.content) for new in changes.add}
        with self._database.write(durable=True) as connection:
            changes = tombstones.without_forgotten_facts(connection, self.stones, scope, changes)
            added = atoms.write_changes(connection, scope, changes, terms, self._space, now)
            for session_key in dict.fromkeys(new.session_key for new in changes.add):
                pending.run_plan(connection, scope, session_key, plan)
            self._embed_soon(connection, added, now)
            return added

    def park_l1(self, lease: Lease, batch: L1Batch, reason: str, detail: str, plan: SessionPlan, now: int) -> None:
        _check_batch(lease, batch)
        with self._database.write() as connection:
            jobs.check_lease(connection, lease)
            parking.park_batch(connection, batch, reason, detail, now)
            if batch.reread:
                rule_reads.take_off(connection, batch)
            turns.move_cursor(connection, batch, "", runs=0)
            pending.close_job(connection, lease, now, reread=self._reread, session_plan=plan)

    def park_job(self, lease: Lease, reason: str, detail: str, now: int) -> None:
        with self._database.write() as connection:
            pending.close_job(connection, lease, now, reread=self._reread, park=(reason, detail))

    # ---- L2, L3
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
        with self._database.write() as connection:
            jobs.check_lease(connection, lease)
            documents.write_scenes(connection, lease, to_atom_seq, changes, persona_request, now)
            pending.close_job(
                connection, lease, now, reread=self._reread, session_plan=session_plan, scope_plan=scope_plan
            )
            faults.reach("scenes.before_commit")
        faults.reach("scenes.after_commit")

    def apply_persona(self, lease: Lease, persona: Persona | None, scope_plan: ScopePlan, now: int) -> None:
        with self._database.write() as connection:
            jobs.check_lease(connection, lease)
            documents.write_persona_run(connection, lease, persona)
            pending.close_job(connection, lease, now, reread=self._reread, scope_plan=scope_plan)
            faults.reach("persona.before_commit")
        faults.reach("persona.after_commit")

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
        terms = [index_text(message.text) for message in evidence.messages]
        facts = facts or AtomChanges()
        fact_terms = {new.content: index_text(new.content) for new in facts.add}
        with self._database.write() as connection:
            receipt = turns.write_turn(connection, evidence, terms, self._space, now)
            turns.skip_turn(connection, evidence)
            atoms.write_changes(connection, scope, facts, fact_terms, self._space, now)
            if facts.add:
                atoms.skip_atoms(connection, scope, evidence.session_key)
            documents.write_edits(connection, scope, scenes, persona, receipt.message_ids, now, action)
            if self._space is not None:
                jobs.arm_embedding(connection, now)

    # ---- vectors
    def use_space(self, space: EmbeddingSpace | None) -> None:
        if space is None:
            with self._database.write() as connection:
                vector_rows.leave_spaces(connection)
            self._space, self._spaces = None, ()
            return
        if self.vectors_problem:
            raise StoreError(f"vectors cannot be used: {self.vectors_problem}", code="vectors_unavailable")
        with self._database.write() as connection:
            number = vector_rows.enter_space(connection, space)
            if vector_rows.queued_texts(connection, number, 1):
                jobs.arm_embedding(connection, max(self._opened_at, turns.last_recorded_at(connection)))
            former = vector_rows.former_space(connection, number)
            former_number = vector_rows.space_number(connection, former) if former else None
        self._space = number
        in_use = self._opened(space, number)
        if former and former_number is not None:
            self._spaces = (in_use, self._opened(former, former_number))
        else:
            self._spaces = (in_use,)

    def put_vectors(self, vectors: Sequence[tuple[TextToEmbed, Sequence[float] | None]], error: str, now: int) -> None:
        stored: dict[tuple[str, str], list[tuple[int, Sequence[float]]]] = {}
        with self._database.write() as connection:
            space = self._space_in_use()
            in_use = self._spaces[0]
            for text, vector in vectors:
                if text.space not in {0, space}:  # it was made for a space that was left meanwhile
                    continue
                scope = vector_rows.write_vector(connection, space, text, vector, error, now)
                if scope is not None and vector is not None:
                    stored.setdefault((str(text.layer), scope), []).append((text.seq, vector))
            whole = vector_rows.drop_replaced_spaces(connection, space)
            faults.reach("vectors.before_commit")
        faults.reach("vectors.after_commit")
        for (layer, scope), rows in stored.items():
            in_use.index.add(layer, scope, rows)
        if whole:
            self._spaces = (in_use,)

    # ---- generations
    def swap_derived(
        self,
        source: Connection,
        scope: str | None,
        seen: Sequence[Row],
        record: Callable[[Connection], None],
        now: int,
    ) -> bool:
        """Puts the derived rows of `source` in the place of those in use; `record` writes down in the same transaction
        which generations there are now. False, and nothing done: the scope is not as it was when `seen` was read."""
        terms = generation_shadow.index_terms(source, scope)
        with self._database.write(durable=True) as connection:
            if generation_rows.marks(connection, scope) != list(seen):
                return False
            gone = generation_swap.replace_derived(connection, source, scope, self._space, terms, self.stones, now)
            record(connection)
            if self._space is not None:
                jobs.arm_embedding(connection, now)
        for space in self._spaces:
            for owner, seqs in gone.items():
                space.index.remove(str(Layer.L1), owner, seqs)
        return True

    # ---- quarantine
    def hold_messages(self, suspects: Sequence[tuple[Message, Sequence[str]]], now: int) -> None:
        with self._database.write(durable=True) as connection:
            quarantine.hold_messages(connection, suspects, now)

    def settle_suspect(self, message: Message, state: str, now: int) -> None:
        with self._database.write(durable=True) as connection:
            quarantine.settle(connection, message, state, now)

    # ---- ledger, projections
    def record_call(self, call: ModelCall) -> None:
        with self._database.write() as connection:
            ledger.write_call(connection, call)

    def set_host_model_used(self, used: bool) -> None:
        with self._database.write() as connection:
            ledger.set_host_model_used(connection, used)

    def set_projection_hash(self, scope: str, filename: str, hash: str | None) -> None:
        with self._database.write() as connection:
            reads.set_projection_hash(connection, scope, filename, hash)

    def _opened(self, identity: EmbeddingSpace, number: int) -> OpenSpace:
        """With what is in memory of it already."""
        known = (one for one in self._spaces if (one.identity, one.number) == (identity, number))
        return next(known, None) or OpenSpace(identity, number)

    def _embed_soon(self, connection: Connection, added: Sequence[Atom], now: int) -> None:
        if added and self._space is not None:
            jobs.arm_embedding(connection, now)


def _check_batch(lease: Lease, batch: L1Batch) -> None:
    if (lease.scope, lease.session_key) != (batch.scope, batch.session_key):
        raise StoreError(f"job {lease.job_id} does not belong to the batch's session")
