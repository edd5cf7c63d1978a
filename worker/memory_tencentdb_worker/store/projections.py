"""Files for people and for the original's tools, made from the store after each commit. They can be made again at any
time; the store never reads them, except for what a person wrote into a scene or the persona."""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

from memory_tencentdb.redaction import hide_secrets
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.projection_documents import DocumentFiles, Edit
from memory_tencentdb_worker.store.projection_files import drop_litter, make_dir, read_bytes, write_file
from memory_tencentdb_worker.store.projection_formats import manifest_text
from memory_tencentdb_worker.store.projection_lines import (
    MESSAGES_AT_ONCE,
    AtomLines,
    MessageLines,
    line_differences,
)

__all__ = ["Difference", "Edit", "Projector", "scope_dir"]

Mark = tuple[int, int, int, int]

COMPARED_TIMES = 3
"""So often a comparison begins anew because a turn came in between."""

CHECKED_SCOPES = 50
"""So many users' files are looked at for edits in one round, in turn: a thousand of them cost half a second."""


@dataclass(frozen=True)
class Difference:
    """`kind`: missing, stale, foreign (of a day without rows), edited (by a person), unreadable."""

    path: Path
    kind: str


def scope_dir(data_dir: Path, scope: str) -> Path:
    """The default user's files are in the data directory itself, those of others under `users/<hash>/`."""
    if not scope:
        return data_dir
    return data_dir / "users" / hashlib.sha256(scope.encode("utf-8", "surrogatepass")).hexdigest()[:20]


class Projector:
    """Keeps the files of every scope equal to the store. Raises StoreError or StoreFull when the disk refuses, or when
    the database has gone from there; what was not written is tried again by the next `refresh`. Any thread may call;
    one works at a time."""

    def __init__(
        self,
        store: Store,
        data_dir: Path,
        zone: tzinfo,
        *,
        persona_backups: int = 3,
        scene_backups: int = 10,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        redact: Callable[[str], str] = hide_secrets,
        messages_at_once: int = MESSAGES_AT_ONCE,
    ) -> None:
        """`redact` takes the secrets out of what a person has written into a file. No more than `messages_at_once` are
        in memory when a start or a rebuild goes through all of them."""
        self._messages_at_once = messages_at_once
        self._store, self._data_dir, self._zone, self._clock = store, data_dir, zone, clock
        self._persona_backups, self._scene_backups, self._redact = persona_backups, scene_backups, redact
        self._scopes: dict[str, _ScopeFiles] = {}
        self._checked = 0  # where the next round of looking for edits begins
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Writes what is stale. Costs one small query for each scope when nothing changed."""
        with self._lock:
            self._store.check_place()
            for scope in self._store.scopes():
                self._files(scope).refresh()

    def rebuild(self) -> int:
        """Makes every file anew, also those that a person deleted, but not those that a person edited and that are not
        read in yet. Returns the number of files."""
        with self._lock:
            self._store.check_place()
            return sum(self._files(scope).rebuild() for scope in self._store.scopes())

    def differences(self) -> list[Difference]:
        """Files that are not as the store says. Writes what became stale since the last `refresh` of this projector,
        and nothing before the first."""
        with self._lock:
            self._store.check_place()
            return [
                Difference(scope_dir(self._data_dir, scope) / file, kind)
                for scope in self._store.scopes()
                for file, kind in self._files(scope).differences()
            ]

    def read_edits(self) -> list[Edit]:
        """What persons changed in scene and persona files. To be given to `Store.edit_documents`; then `refresh`.

        Looks where `refresh` is about to write, at the default user's files, and at those of some others in turn.
        """
        with self._lock:
            self._store.check_place()
            return [edit for scope in self._to_check() for edit in self._files(scope).documents.read_edits()]

    def drop_scope(self, scope: str) -> None:
        """Removes the files of a user of whom the store knows nothing any more."""
        if not scope:
            raise ValueError("the default user's files lie beside the database")
        with self._lock:
            self._scopes.pop(scope, None)
            shutil.rmtree(scope_dir(self._data_dir, scope), ignore_errors=True)

    def _to_check(self) -> list[str]:
        scopes = self._store.scopes()
        begin = self._checked if self._checked < len(scopes) else 0
        self._checked = begin + CHECKED_SCOPES
        in_turn = scopes[begin : self._checked]
        own = [scope for scope in scopes if not scope]
        stale = [scope for scope in scopes if self._files(scope).stale()]
        return list(dict.fromkeys([*own, *in_turn, *stale]))

    def _files(self, scope: str) -> _ScopeFiles:
        if scope not in self._scopes:
            directory = scope_dir(self._data_dir, scope)
            documents = DocumentFiles(
                self._store,
                scope,
                directory,
                zone=self._zone,
                clock=self._clock,
                persona_backups=self._persona_backups,
                scene_backups=self._scene_backups,
                redact=self._redact,
            )
            self._scopes[scope] = _ScopeFiles(
                self._store,
                scope,
                directory,
                zone=self._zone,
                clock=self._clock,
                documents=documents,
                messages_at_once=self._messages_at_once,
            )
        return self._scopes[scope]


class _ScopeFiles:
    """The files of one scope and how much of the store they show."""

    def __init__(
        self,
        store: Store,
        scope: str,
        directory: Path,
        *,
        zone: tzinfo,
        clock: Callable[[], int],
        documents: DocumentFiles,
        messages_at_once: int,
    ) -> None:
        self._store, self._scope, self._zone = store, scope, zone
        self._directory, self._clock = directory, clock
        self._messages = MessageLines(store, scope, directory, zone, messages_at_once)
        self._atoms = AtomLines(store, scope, directory, zone)
        self.documents = documents
        self._messages_mark: int | None = None
        self._atoms_mark: int | None = None
        self._documents_mark: tuple[int, int] | None = None

    def stale(self) -> bool:
        """Whether a document changed in the store since it was written."""
        _, _, scenes, persona = self._store.change_mark(self._scope)
        return (scenes, persona) != self._documents_mark

    def refresh(self) -> None:
        messages, atoms, scenes, persona = self._store.change_mark(self._scope)
        if self._messages_mark is None:
            self._prepare()
        if messages != self._messages_mark:
            self._messages.update()
            self._messages_mark = messages
        if atoms != self._atoms_mark:
            self._atoms.update()
            self._atoms_mark = atoms
        if (scenes, persona) != self._documents_mark or self.documents.awaits_restoring:
            self.documents.update()
            self._documents_mark = (scenes, persona)

    def rebuild(self) -> int:
        messages, atoms, scenes, persona = self._store.change_mark(self._scope)
        self._prepare()
        days = self._messages.rebuild() + self._atoms.rebuild()
        count = days + self.documents.update(restore_missing=True)
        self._messages_mark, self._atoms_mark, self._documents_mark = messages, atoms, (scenes, persona)
        return count + 1

    def differences(self) -> list[tuple[str, str]]:
        for _ in range(COMPARED_TIMES):
            if self._messages_mark is not None:
                self.refresh()
            mark = self._store.change_mark(self._scope)
            lines = line_differences(self._store, self._scope, self._directory, self._zone)
            found = [*lines, *self.documents.differences()]
            if self._store.change_mark(self._scope) == mark:
                return found
        return []  # it is being written to faster than it can be compared: nothing can be said

    def _prepare(self) -> None:
        """The directories, free of what a killed process had begun, and the manifest, of which only the absence
        matters later."""
        for name in ("", "conversations", "records", "scene_blocks", ".metadata"):  # the persona lies at the top
            drop_litter(make_dir(self._directory / name))
        for backups in (self._directory / ".backup").glob("*/"):
            drop_litter(backups)
        path = self._directory / ".metadata" / "manifest.json"
        if not read_bytes(path):
            write_file(path, manifest_text(self._clock()).encode())
