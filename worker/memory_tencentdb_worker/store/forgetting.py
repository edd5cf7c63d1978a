"""Forgetting in `memory.db`: the plan, the one transaction that carries it out, and the cleaning of the file.

What SQLite deletes stays in freed pages, in index segments and in the write-ahead log until something is written over
it. `scrub` merges the segments, writes the file anew and cuts the log, so that nothing of it is left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import JobKind, Layer
from memory_tencentdb_worker.store import forget_rows, jobs
from memory_tencentdb_worker.store.audit import record_change
from memory_tencentdb_worker.store.connection import select
from memory_tencentdb_worker.store.forget_documents import clean_documents
from memory_tencentdb_worker.store.forget_plan import ForgetPlan, Selection, make_plan
from memory_tencentdb_worker.store.sqlite import SqliteStore

SCRUB_TRIES = 20
SCRUB_REST_SECONDS = 0.25


@dataclass(frozen=True)
class Forgotten:
    """What a plan holds, before it goes. `texts` are the only place where it is spelled out."""

    plan: ForgetPlan
    messages: int
    turns: int
    sessions: tuple[str, ...]
    atoms: int
    superseded: int
    texts: tuple[str, ...]
    ids: frozenset[str]
    shown: tuple[tuple[str, str, str], ...]  # id, layer, text: what a person is shown before they agree


class Forgetting:
    """Thread-safe, as the store is."""

    def __init__(self, store: SqliteStore) -> None:
        self._store, self._database = store, store.database

    def look(self, wanted: Selection) -> Forgotten | None:
        """What would go. None: nothing is known under that name. Raises StoreError."""
        with self._database.read() as connection:
            plan = make_plan(connection, wanted)
            if plan is None:
                return None
            messages = select(
                connection,
                "select id, text, session_key, turn_id from messages where seq in (select value from json_each(?))"
                " order by seq",
                (str(sorted(plan.messages)),),
            )
            atoms = select(
                connection,
                "select id, content, superseded_at is null from atoms where seq in (select value from json_each(?))"
                " order by seq",
                (str(sorted(plan.atoms)),),
            )
            return Forgotten(
                plan,
                len(messages),
                len({row[2:] for row in messages}),
                tuple(dict.fromkeys(str(row[2]) for row in messages)),
                sum(row[2] for row in atoms),
                sum(not row[2] for row in atoms),
                tuple(forget_rows.texts_of(connection, plan)),
                frozenset(forget_rows.ids_of(connection, plan)),
                tuple(
                    [(row[0], str(Layer.L0), row[1]) for row in messages]
                    + [(row[0], str(Layer.L1), row[1]) for row in atoms]
                ),
            )

    def delete(self, what: Forgotten, phrase: str, operation: str, now: int) -> int:
        """One durable transaction; returns how many lines of scenes and persona went. Twice does no more than once."""
        plan = what.plan
        with self._database.write(durable=True) as connection:
            forget_rows.revoke_leases(connection, plan.scope, now)
            forget_rows.place_stones(connection, plan, self._store.stones, now)
            forget_rows.delete_rows(connection, plan, self._store.space)
            lines = clean_documents(connection, plan.scope, what.ids, what.texts, phrase, now)
            record_change(connection, now, plan.scope, "forget", operation, None, None)
            jobs.request_job(connection, JobKind.L3, plan.scope, "", now, expedite=False)
            for (session_key,) in select(
                connection,
                "select session_key from sessions where scope = ? and last_atom_seq > l2_cursor",
                (plan.scope,),
            ):
                jobs.request_job(connection, JobKind.L2, plan.scope, session_key, now, expedite=False)
        self._store.drop_from_memory(plan.scope, plan.messages, plan.atoms)
        return lines

    def left_over(self, texts: Sequence[str]) -> list[str]:
        """Those of the texts that nothing in the store holds any more: no file may hold them either."""
        with self._database.read() as connection:
            return [text for text in texts if not forget_rows.said_elsewhere(connection, text)]

    def scrub(self) -> None:
        """Raises StoreError when others hold the file: it has to be tried again."""
        for table in ("messages_fts", "atoms_fts"):
            with self._database.write() as connection:
                connection.execute(f"insert into {table}({table}) values ('optimize')")
        for _ in range(SCRUB_TRIES):
            if self._database.rewrite():
                return
            time.sleep(SCRUB_REST_SECONDS)
        raise StoreError("others keep reading the database: the forgetting is finished later", code="store_busy")
