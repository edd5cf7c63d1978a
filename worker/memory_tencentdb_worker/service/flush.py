"""Makes pending work due now and, when asked, waits until it is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from memory_tencentdb.wire import FlushRequest, FlushResponse
from memory_tencentdb_worker.errors import Busy, InvalidInput
from memory_tencentdb_worker.service.arguments import optional_session, scope_of
from memory_tencentdb_worker.store.base import Store

if TYPE_CHECKING:
    from memory_tencentdb_worker.pipeline.loop import Pipeline

POLL_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 3600.0
LONGEST_FILES_SECONDS = 2.0
"""Turns that keep coming in make the files stale again and again: waiting on would not end."""

MOST_WAITERS = 8
"""A waiting flush holds a request thread; the others are for captures and recalls."""


class Flusher:
    def __init__(self, store: Store, pipeline: Pipeline, clock: Callable[[], int]) -> None:
        self._store, self._pipeline, self._clock = store, pipeline, clock
        self._waiters = threading.BoundedSemaphore(MOST_WAITERS)
        self._stopping = threading.Event()

    def flush(self, request: FlushRequest) -> FlushResponse:
        """Without a session, `idle` speaks of the whole store; with one, of what this session still waits for.

        Raises InvalidInput, Busy when too many callers wait already, StoreError.
        """
        if not 0 <= request.wait_seconds <= LONGEST_WAIT_SECONDS:  # refuses NaN too
            raise InvalidInput(f"wait_seconds must be between 0 and {LONGEST_WAIT_SECONDS:.0f}")
        scope = None if request.user_id is None else scope_of(request.user_id)
        session_key = optional_session(request.session_key)
        if session_key is not None and scope is None:
            scope = ""
        started, done_before = time.monotonic(), self._store.jobs_done()
        if request.ask_again:
            self._pipeline.ask_again()
        self._wake(scope, session_key, parked=request.parked)
        idle = self._wait(started + request.wait_seconds, scope, session_key)
        return FlushResponse(
            idle=idle,
            jobs_done=self._store.jobs_done() - done_before,
            jobs_parked=self._store.job_counts(self._clock()).parked,
            waited_seconds=round(time.monotonic() - started, 3),
        )

    def stop(self) -> None:
        """Ends every wait: the worker is about to leave."""
        self._stopping.set()

    def _wake(self, scope: str | None, session_key: str | None, *, parked: bool = False) -> None:
        self._store.make_due(self._clock(), scope=scope, session_key=session_key, expedite=True, parked=parked)
        self._pipeline.wake()

    def _wait(self, until: float, scope: str | None, session_key: str | None) -> bool:
        """Whether everything was done in time. The readable files follow a moment later and are waited for too."""
        if time.monotonic() >= until:
            return self._idle(scope, session_key)
        if not self._waiters.acquire(blocking=False):
            raise Busy(f"{MOST_WAITERS} callers wait for a flush already")
        try:
            idle = self._wait_for_jobs(until, scope, session_key)
            if idle:
                self._wait_for_files(min(until, time.monotonic() + LONGEST_FILES_SECONDS))
            return idle
        finally:
            self._waiters.release()

    def _wait_for_jobs(self, until: float, scope: str | None, session_key: str | None) -> bool:
        """Jobs are done by other threads, so the store is asked; each question is one indexed look-up."""
        while not self._idle(scope, session_key):
            if time.monotonic() >= until or self._stopping.wait(POLL_SECONDS):
                return self._idle(scope, session_key)
            if self._nothing_moves():
                self._wake(scope, session_key)  # a turn came in meanwhile, or a chain of jobs ended early
        return True

    def _wait_for_files(self, until: float) -> None:
        while not self._pipeline.files_current() and time.monotonic() < until:
            if self._stopping.wait(POLL_SECONDS):
                return

    def _idle(self, scope: str | None, session_key: str | None) -> bool:
        if session_key is None:
            return self._store.idle()
        counts = self._store.job_counts(self._clock())
        if counts.due or counts.running:
            return False
        return not counts.retrying or not self._unread(scope or "", session_key)

    def _unread(self, scope: str, session_key: str) -> bool:
        return bool(self._store.unextracted(scope, 1, session_key) or self._store.read_l2_batch(scope, session_key, 1))

    def _nothing_moves(self) -> bool:
        counts = self._store.job_counts(self._clock())
        return not (counts.due or counts.running or counts.retrying)
