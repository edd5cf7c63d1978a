"""Looks after the store while nobody asks: tries again after a failure, shrinks the WAL, reads through, backs up."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.service.store_watch import StoreWatch
from memory_tencentdb_worker.store.base import Store

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
BACKUP_EVERY_MS = 24 * 3600 * 1000
BACKUP_AGAIN_SECONDS = 3600.0
BACKUP_LIMIT_BYTES = 2 * 1024**3
"""A larger store is not copied unasked: it takes minutes and as much space again."""


class Upkeep:
    """One thread. `quiet` says whether nobody would notice some seconds of work; `refresh` assesses the state anew."""

    def __init__(
        self,
        store: Store,
        watch: StoreWatch,
        clock: Callable[[], int],
        *,
        quiet: Callable[[], bool],
        refresh: Callable[[], object],
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._store, self._watch, self._clock = store, watch, clock
        self._quiet, self._refresh, self._look_seconds = quiet, refresh, look_seconds
        self._warmed = self._read_through = False
        self._backup_after = 0.0  # monotonic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-upkeep", daemon=True)

    def start(self) -> None:
        """Once."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 1.0) -> None:
        """A backup that is being made is given up. Safe to call twice."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)

    def look(self) -> None:
        """One round."""
        if self._watch.wants_probe:
            self._try("write", self._store.probe)
        facts = self._store.facts()
        if facts.wal_bytes and not facts.damage:
            self._try("checkpoint", self._store.checkpoint)
        if not self._warmed:
            self._warmed = True
            self._try("read", self._store.warm_search)
        if self._quiet() and not self._stopping.is_set():
            self._use_quiet_time()
        self._refresh()

    def _run(self) -> None:
        while not self._stopping.wait(self._look_seconds):
            try:
                self.look()
            except Exception:  # top of the thread: it must outlive every defect
                logger.exception("the upkeep of the store goes on after a defect")

    def _use_quiet_time(self) -> None:
        if not self._read_through:
            self._read_through = True
            self._try("read", self._store.read_through)
        facts = self._store.facts()
        now = self._clock()
        old = facts.backup_at is None or now - facts.backup_at >= BACKUP_EVERY_MS
        if not old or facts.damage or facts.size_bytes > BACKUP_LIMIT_BYTES or time.monotonic() < self._backup_after:
            return
        self._backup_after = time.monotonic() + BACKUP_AGAIN_SECONDS
        if self._try("backup", lambda: self._store.back_up(now)):
            self._backup_after = 0.0

    def _try(self, what: str, work: Callable[[], object]) -> bool:
        try:
            work()
        except StoreError as error:
            if self._watch.failed(what, error, self._clock()):
                logger.debug("%s: %s", what, error)
            return False
        if self._watch.succeeded(what):
            logger.info("the store's %s works again", what)
        return True
