"""`doctor` from within: store, files, backups, and whether what is written is found again. One method, thread-safe."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

from memory_tencentdb_worker.errors import Busy, StoreCorrupt
from memory_tencentdb_worker.service.doctor_canary import Find, try_canary
from memory_tencentdb_worker.service.doctor_kinds import finding, is_clean
from memory_tencentdb_worker.service.doctor_places import look_at_places, repair_places
from memory_tencentdb_worker.store.backups import newest_good_backup, restore_command
from memory_tencentdb_worker.store.integrity import Integrity
from memory_tencentdb_worker.store.projection_files import make_dir
from memory_tencentdb_worker.store.projections import Difference, Projector
from memory_tencentdb_worker.store.sqlite import SqliteStore
from memory_tencentdb_worker.text.times import stamp_local

log = logging.getLogger(__name__)

PROBES = {"llm": "model_silent", "embedding": "embedder_silent"}

DAMAGES = ("store_corrupt", "damage")
"""Nothing is written to such a file any more."""

SET_ASIDE = ("stale", "foreign", "unreadable")


@dataclass(frozen=True)
class DoctorTools:
    """`read_edits` takes in what persons wrote into files; `find` searches messages of a user; `ask` puts one question
    to the model or the embedder, None when neither is at hand."""

    read_edits: Callable[[], object]
    find: Find
    ask: Callable[[str], dict[str, Any]] | None
    wake: Callable[[], None]


class Doctor:
    """`home` and `data_dir` are those of the store."""

    def __init__(
        self, store: SqliteStore, projector: Projector, home: Path, clock: Callable[[], int], tools: DoctorTools
    ) -> None:
        self._store, self._projector, self._home, self._clock = store, projector, home, clock
        self._data_dir, self._tools = store.data_dir, tools
        self._integrity = Integrity(store)
        self._lock = threading.Lock()

    def examine(self, *, repair: bool = False, quick: bool = False) -> dict[str, Any]:
        """`{clean, findings, repaired}`. `repair` puts right what can be, after looking for everything, and tells what
        is left; a second time it finds nothing more to do. Raises Busy, StoreError."""
        if not self._lock.acquire(blocking=False):
            raise Busy("another examination is under way: try again when it has ended")
        try:
            found = self._look(quick=quick and not repair)
            repaired = self._repair(found) if repair else []
            left = self._look(quick=False) if repaired else found
            if not any(one["code"] in DAMAGES for one in left):
                left += self._probes(quick=quick)
            return {"clean": is_clean(left), "findings": left, "repaired": _gone(repaired, left)}
        finally:
            self._lock.release()

    # ---- inside
    def _look(self, *, quick: bool) -> list[dict[str, Any]]:
        try:
            faults = self._integrity.look(quick=quick)
        except StoreCorrupt as error:
            return [self._damage(error)]
        found = [finding(one.code, one.where) for one in faults]
        if not quick:
            found += _of_files(self._projector.differences())
        newest = self._integrity.newest_recorded_at()
        return found + look_at_places(self._home, self._data_dir, self._clock(), newest, quick=quick)

    def _damage(self, error: StoreCorrupt) -> dict[str, Any]:
        fix = restore_command(self._data_dir, newest_good_backup(self._data_dir), self._clock())
        return finding("store_corrupt", [self._data_dir / "memory.db"], str(error), fix)

    def _repair(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        wanted = [one for one in found if one["repairable"]]
        if not wanted or any(one["code"] in DAMAGES for one in found):
            return []
        self._tools.read_edits()  # before files are written again
        now = self._clock()
        for one in self._integrity.repair(now):
            log.info("doctor: repaired %s (%d)", one.code, len(one.where))
        repair_places(self._home, self._data_dir)
        self._restore_files(now)
        self._tools.wake()
        return wanted

    def _restore_files(self, now: int) -> None:
        """What a file held otherwise is kept beside: of a message that was altered it may be the last true copy."""
        aside = self._data_dir / ".backup" / f"doctor-{stamp_local(now, UTC)}"
        for one in self._projector.differences():
            if one.kind in SET_ASIDE:
                kept = aside / one.path.relative_to(self._data_dir)
                make_dir(kept.parent)
                one.path.replace(kept)
        self._projector.rebuild()

    def _probes(self, *, quick: bool) -> list[dict[str, Any]]:
        found = try_canary(self._store, self._integrity, self._projector, self._tools.find, self._clock())
        if quick or self._tools.ask is None:
            return found
        for part, code in PROBES.items():
            answer = self._tools.ask(part)
            if answer["asked"] and not answer["answers"]:
                found.append(finding(code, [answer["model"]], str(answer["error"])))
        return found


def _of_files(differences: Iterable[Difference]) -> list[dict[str, Any]]:
    by_kind: dict[str, list[Path]] = {}
    for one in differences:
        by_kind.setdefault(one.kind, []).append(one.path)
    return [finding(f"file_{kind}", paths) for kind, paths in by_kind.items()]


def _gone(wanted: list[dict[str, Any]], left: list[dict[str, Any]]) -> list[dict[str, Any]]:
    codes = {one["code"] for one in left}
    return [{name: one[name] for name in ("code", "what", "where", "count")} for one in wanted
            if one["code"] not in codes]  # fmt: skip
