"""Generations: what was made from L0 once, kept for a rollback, or is being made again beside what is in use.

Each lies in a file of its own under `.generations/` in the data directory. Whoever forgets something asks `files` for
them: a text that was forgotten must not stand in one of them either.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from memory_tencentdb.paths import private_dir
from memory_tencentdb_worker.errors import NotFound, StoreError
from memory_tencentdb_worker.models import Atom
from memory_tencentdb_worker.store import generation_rows as rows
from memory_tencentdb_worker.store.connection import (
    BUSY_TIMEOUT_MS,
    Row,
    first_row,
    first_value,
    narrow_files,
    select,
)
from memory_tencentdb_worker.store.generation_shadow import copy_turns, fill_shadow, lost_messages
from memory_tencentdb_worker.store.rows import ATOM_COLUMNS, atoms_of
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from memory_tencentdb_worker.store.sqlite_errors import translated_errors

_log = logging.getLogger(__name__)

FOLDER = ".generations"
FILE = "memory.db"
SWAP_TRIES = 5

BUILDING, READY, KEPT = "building", "ready", "kept"


@dataclass(frozen=True)
class Generation:
    """`scope` None: everybody's. `model` "" is the configured one. `hash` is "" while it changes."""

    id: str
    state: str
    scope: str | None
    model: str
    made_at: int
    changed_at: int
    hash: str


@dataclass(frozen=True)
class GenerationCounts:
    atoms: int  # live ones
    scenes: int
    parked: int
    messages: int  # of a kept one: those that its facts rest on


_COUNTED = (
    "select count(*) from atoms where superseded_at is null",
    "select count(*) from scene_revisions where newest = 1 and status = 'active'",
    "select count(*) from parked where resolved_at is null",
    "select count(*) from messages",
)


def files(data_dir: Path) -> list[Path]:
    """Every database file that holds a generation beside the one in use, whether a replay is under way or not."""
    folder = data_dir / FOLDER
    return sorted(folder.glob(f"*/{FILE}")) if folder.is_dir() else []


class Generations:
    """Thread-safe. One shadow and one kept generation at most."""

    def __init__(self, store: SqliteStore) -> None:
        self._store, self._database = store, store.database
        self._folder = self._database.path.parent / FOLDER

    # ---- which there are
    def shadow(self) -> Generation | None:
        return self._one(f"state in ('{BUILDING}', '{READY}')")

    def kept(self) -> Generation | None:
        return self._one(f"state = '{KEPT}'")

    def tidy(self) -> None:
        """At start: takes away files that no row names and rows whose file is gone, left by a crash or by a person."""
        known = {one.id for one in (self.shadow(), self.kept()) if one is not None}
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)
        for id in known:
            if not (self._folder / id / FILE).exists():
                _log.warning("the generation %s has lost its file and is given up", id)
                self._drop(id)

    # ---- the shadow
    def begin(self, id: str, scope: str | None, model: str, now: int) -> Generation:
        """Makes the shadow, with all of L0. Raises StoreError `replay_exists`."""
        if self.shadow() is not None:
            raise StoreError("a replay is under way: switch to it or abandon it first", code="replay_exists")
        shadow = self.open_shadow(id, now)
        try:
            with self._database.read() as live, shadow.database.write(durable=True) as target:
                fill_shadow(live, target, scope)
            shadow.make_due(now, expedite=True)
        finally:
            shadow.close()
        begun = Generation(id, BUILDING, scope, model, now, now, "")
        with self._database.write(durable=True) as connection:
            _insert(connection, begun)
        return begun

    def open_shadow(self, id: str, now: int) -> SqliteStore:
        """The caller closes it."""
        shadow = open_store(self._folder_of(id), now)
        shadow.stones = self._store.stones  # what was forgotten is not made again there either
        return shadow

    def messages_read(self, generation: Generation) -> int:
        """How many messages of the shadow L1 has read."""
        with self._opened(generation) as connection:
            return int(
                first_value(
                    connection,
                    "select count(*) from messages m join sessions s on s.scope = m.scope"
                    " and s.session_key = m.session_key where m.seq <= s.l1_cursor",
                )
            )

    def catch_up(self, generation: Generation, shadow: SqliteStore) -> int:
        """Copies turns that came meanwhile and that L1 has read. Returns the number of messages."""
        with self._database.read() as live, shadow.database.write() as target:
            return copy_turns(live, target, generation.scope, only_read=True)

    def check(self, shadow: SqliteStore) -> None:
        """Raises StoreError `replay_outdated` when a message of the shadow is gone: what was made from it is not to be
        used. Reads every message."""
        with self._database.read() as live, shadow.database.read() as copy:
            if lost_messages(live, copy):
                raise StoreError("messages were forgotten since the replay began: abandon it", code="replay_outdated")

    def ready(self, generation: Generation, shadow: SqliteStore, now: int) -> None:
        """Everything is made again, as far as it can be."""
        with shadow.database.read() as connection:
            digest = rows.content_hash(connection, generation.scope)
        with self._database.write() as connection:
            connection.execute(
                "update generations set state = ?, changed_at = ?, hash = ? where id = ?",
                (READY, now, digest, generation.id),
            )

    def abandon(self) -> Generation:
        """Raises NotFound. The shadow must not be open."""
        generation = self.shadow()
        if generation is None:
            raise NotFound("there is no replay to abandon")
        self._drop(generation.id)
        return generation

    def drop_all(self) -> int:
        """A forgetting leaves none of them. The shadow must not be open. Returns how many there were."""
        there = [one for one in (self.shadow(), self.kept()) if one is not None]
        for one in there:
            self._drop(one.id)
        return len(there)

    # ---- changing over
    def swap(self, source: Generation, kept_id: str, now: int) -> Generation:
        """The source's rows take the place of those in use, which are kept under `kept_id` for a rollback. The source
        and the generation kept so far are gone afterwards. Returns what is kept now. Raises StoreError."""
        before = self.kept()
        with self._opened(source) as rows_of_source:
            for _ in range(SWAP_TRIES):
                kept, seen = self._keep(kept_id, source.scope, now)
                if self._swapped(rows_of_source, source, kept, seen, now):
                    break
            else:
                shutil.rmtree(self._folder / kept_id, ignore_errors=True)
                raise StoreError("memories kept changing meanwhile: try again", code="store_busy")
        for one in (source, before):
            if one is not None:
                shutil.rmtree(self._folder / one.id, ignore_errors=True)
        return kept

    def content_hash(self, scope: str | None) -> str:
        """Of what is in use."""
        with self._database.read() as connection:
            return rows.content_hash(connection, scope)

    # ---- looking into one
    def counts(self, generation: Generation) -> GenerationCounts:
        with self._opened(generation) as connection:
            return GenerationCounts(*(int(first_value(connection, sql)) for sql in _COUNTED))

    def live_atoms(self, generation: Generation | None, scope: str | None) -> list[Atom]:
        """With their sources. None: of what is in use."""
        sql = f"select {ATOM_COLUMNS} from atoms a where superseded_at is null and {rows.IN_SCOPE} order by seq"
        if generation is None:
            with self._database.read() as connection:
                return atoms_of(connection, select(connection, sql, {"scope": scope}))
        with self._opened(generation) as connection:
            return atoms_of(connection, select(connection, sql, {"scope": scope}))

    def kept_atom(self, scope: str | None, id: str) -> tuple[Atom, str] | None:
        """An atom of the generation kept for a rollback, and that one's id."""
        kept = self.kept()
        if kept is None:
            return None
        with self._opened(kept) as connection:
            sql = f"select {ATOM_COLUMNS} from atoms a where a.id = :id and {rows.IN_SCOPE}"
            found = atoms_of(connection, select(connection, sql, {"scope": scope, "id": id}))
        return (found[0], kept.id) if found else None

    # ---- inside
    def _folder_of(self, id: str) -> Path:
        private_dir(self._folder)
        return private_dir(self._folder / id)

    def _one(self, condition: str) -> Generation | None:
        with self._database.read() as connection:
            names = "id, state, scope, model, made_at, changed_at, hash"
            row = first_row(connection, f"select {names} from generations where {condition} order by made_at limit 1")
        return Generation(*row) if row else None

    def _drop(self, id: str) -> None:
        with self._database.write() as connection:
            connection.execute("delete from generations where id = ?", (id,))
        shutil.rmtree(self._folder / id, ignore_errors=True)

    def _keep(self, id: str, scope: str | None, now: int) -> tuple[Generation, list[Row]]:
        """Copies the derived rows in use into a file of their own. Returns what it is and the marks it was made at."""
        folder = self._folder / id
        shutil.rmtree(folder, ignore_errors=True)
        path = self._folder_of(id) / FILE
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with self._database.read() as live, _plain_file(path) as copy:
            copy.execute("begin")
            for definition in rows.table_definitions(live, rows.DERIVED):
                copy.execute(definition)
            for table in rows.DERIVED:
                rows.copy_table(live, copy, table, scope)
            copy.execute("create table messages(seq integer primary key, id text not null, sent_at integer) strict")
            wanted = select(copy, "select distinct message from atom_sources order by message")
            named = (first_row(live, "select seq, id, sent_at from messages where seq = ?", one) for one in wanted)
            rows.insert_rows(copy, "messages", "seq, id, sent_at", (one for one in named if one is not None))
            copy.execute(f"pragma user_version = {int(first_value(live, 'pragma user_version'))}")
            copy.execute("commit")
            digest = rows.content_hash(copy, scope)
            return Generation(id, KEPT, scope, "", now, now, digest), rows.marks(live, scope)

    def _swapped(
        self, source: apsw.Connection, generation: Generation, kept: Generation, seen: list[Row], now: int
    ) -> bool:
        """False: what is in use was changed since the copy was made."""

        def record(connection: apsw.Connection) -> None:
            connection.execute("delete from generations where id = ? or state = ?", (generation.id, KEPT))
            _insert(connection, kept)

        return self._store.swap_derived(source, generation.scope, seen, record, now)

    @contextmanager
    def _opened(self, generation: Generation) -> Iterator[apsw.Connection]:
        """One snapshot of its file, which must be of the schema in use."""
        path = self._folder / generation.id / FILE
        if not path.exists():
            raise StoreError(f"{path} is missing: the generation {generation.id} is lost", code="generation_lost")
        with self._database.read() as live:
            version = int(first_value(live, "pragma user_version"))
        with _plain_file(path) as connection:
            if int(first_value(connection, "pragma user_version")) != version:
                raise StoreError(
                    f"the generation {generation.id} was made by another version and cannot be used by this one",
                    code="generation_schema",
                )
            connection.execute("begin")
            yield connection


def _insert(connection: apsw.Connection, one: Generation) -> None:
    connection.execute(
        "insert into generations(id, state, scope, model, made_at, changed_at, hash) values (?, ?, ?, ?, ?, ?, ?)",
        (one.id, one.state, one.scope, one.model, one.made_at, one.changed_at, one.hash),
    )


@contextmanager
def _plain_file(path: Path) -> Iterator[apsw.Connection]:
    """A connection of its own, without foreign keys: a kept generation has no messages to point at."""
    with translated_errors(path):
        connection = apsw.Connection(os.fspath(path))
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            yield connection
        finally:
            connection.close()
            narrow_files(path)
