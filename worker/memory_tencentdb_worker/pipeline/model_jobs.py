"""The jobs that may call the model, one at a time: L1 before L2 before L3, so that a later layer reads more at once
after a pause; within a layer the one due longest first."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from memory_tencentdb import faults
from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.layers import l1_atoms, l2_scenes, l3_persona
from memory_tencentdb_worker.layers.outcome import Done, Outcome, Parked, Paused, Retry
from memory_tencentdb_worker.layers.parts import Parts
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import JobKind, Lease
from memory_tencentdb_worker.pipeline.breaker import FIRST_RETRY_MS, LAST_RETRY_MS, EndpointBreaker
from memory_tencentdb_worker.pipeline.budget import DayBudget
from memory_tencentdb_worker.pipeline.heartbeat import LEASE_MS, kept_lease
from memory_tencentdb_worker.pipeline.watched import WatchedLLM
from memory_tencentdb_worker.store.base import Store

logger = logging.getLogger(__name__)

KINDS = (JobKind.L1, JobKind.L2, JobKind.L3)
STALE_RETRY_MS = 1_000
_LAYERS: dict[JobKind, Callable[[Lease, Parts, int], Outcome]] = {
    JobKind.L1: l1_atoms.run,
    JobKind.L2: l2_scenes.run,
    JobKind.L3: l3_persona.run,
}


class ModelJobs:
    """`parts.llm` and `parts.embedder` are what the next job will use."""

    def __init__(
        self,
        store: Store,
        parts: Parts,
        clock: Callable[[], int],
        *,
        owner: str,
        stopping: threading.Event,
        lease_ms: int = LEASE_MS,
        budget: DayBudget | None = None,
    ) -> None:
        self._store, self._parts, self._clock, self._owner = store, parts, clock, owner
        self._stopping, self._lease_ms, self._budget = stopping, lease_ms, budget
        self._lock = threading.Lock()
        self._breaker = EndpointBreaker()
        self._host_awaited = False
        self._held_since: int | None = None
        self._reread_told = False
        store.use_rereading(_rereads(parts))

    @property
    def breaker(self) -> EndpointBreaker:
        return self._breaker

    @property
    def llm(self) -> LLM | None:
        return self._parts.llm

    def use(self, parts: Parts) -> None:
        """A new model begins with a closed breaker; a job that runs now ends with the old one."""
        with self._lock:
            if parts.llm is not self._parts.llm:
                self._breaker, self._reread_told = EndpointBreaker(), False
            self._parts = parts
            self._store.use_rereading(_rereads(parts))

    @property
    def parts(self) -> Parts:
        return self._parts

    @property
    def held_since(self) -> int | None:
        """Since when a job has been due that waits for the host's model."""
        return self._held_since

    def await_host_model(self) -> None:
        """Until there is a model, rules read only what a flush asks for: what a model would read waits for it."""
        self._host_awaited = True

    def run_due(self) -> bool:
        """Runs one job; False when none is due or the endpoint must be left alone. Raises StoreError when the store
        cannot take the job back either."""
        with self._lock:
            parts, breaker = self._parts, self._breaker
        now = self._clock()
        if parts.llm is not None and (not breaker.allows(now) or self._used_up()):
            return False
        lease = self._lease(parts, now)
        if lease is None and parts.llm is not None and self._store.arm_reread(now):
            self._tell_reread(parts.llm)
            lease = self._lease(parts, now)
        if lease is None:
            self._note_held(parts, now)
            return False
        faults.reach("job.leased")
        outcome = self._run(lease, parts, breaker, now)
        if self._stopping.is_set() and isinstance(outcome, Retry | Paused):
            return True  # cut short by our own stop: the lease is given back, which does not count as a failed try
        self._settle(lease, outcome, breaker)
        return True

    def next_at(self) -> int | None:
        """When `run_due` may have something to do."""
        due_at = self._store.next_due_at(KINDS, expedited_only=self._holds(self._parts))
        if due_at is None or self._parts.llm is None or self._breaker.allows(self._clock()):
            return due_at if self._paused_until is None or due_at is None else max(due_at, self._paused_until)
        return max(due_at, self._breaker.free_at)

    def _used_up(self) -> bool:
        return self._budget is not None and self._budget.look() is not None

    @property
    def _paused_until(self) -> int | None:
        pause = self._budget.pause if self._budget is not None and self._parts.llm is not None else None
        return pause.until if pause is not None else None

    def _lease(self, parts: Parts, now: int) -> Lease | None:
        return self._store.lease_job(KINDS, now, self._lease_ms, self._owner, expedited_only=self._holds(parts))

    def _tell_reread(self, llm: LLM) -> None:
        """Calls of which nobody has asked for each are announced."""
        if not self._reread_told:
            self._reread_told = True
            turns = self._store.turns_to_reread()
            logger.info(
                "%s reads again what only rules have read: %d turns, when nothing else is due", llm.model, turns
            )

    def _holds(self, parts: Parts) -> bool:
        return self._host_awaited and parts.llm is None

    def _note_held(self, parts: Parts, now: int) -> None:
        due_at = self._store.next_due_at(KINDS) if self._holds(parts) else None
        held = due_at is not None and due_at <= now
        self._held_since = (self._held_since or due_at) if held else None

    def _run(self, lease: Lease, parts: Parts, breaker: EndpointBreaker, now: int) -> Outcome:
        llm = parts.llm and WatchedLLM(parts.llm, breaker, self._clock)
        try:
            with kept_lease(self._store, lease, self._lease_ms, self._clock) if llm else nullcontext():
                return _LAYERS[lease.kind](lease, replace(parts, llm=llm), now)
        except StoreError as error:
            soon = STALE_RETRY_MS / 1000 if error.code == "stale" else None
            return Retry(f"{error.code}: {error}", soon)
        except Exception as error:  # a defect on one input must not stop the work on all others
            logger.exception("job %s (%s) failed", lease.job_id, lease.kind)
            return Retry(f"{type(error).__name__}: {error}")

    def _settle(self, lease: Lease, outcome: Outcome, breaker: EndpointBreaker) -> None:
        now = self._clock()
        match outcome:
            case Done():
                logger.debug("job %s (%s): %s changes", lease.job_id, lease.kind, outcome.changed)
                if outcome.refused:
                    self._store.count_unsupported(outcome.refused)
                    logger.info("job %s (%s): refused %s items", lease.job_id, lease.kind, outcome.refused)
            case Parked():
                logger.warning("job %s (%s) is parked: %s", lease.job_id, lease.kind, outcome.reason)
            case Retry() | Paused() if breaker is not self._breaker:
                self._store.retry_job(lease, now, "the model was changed", now)
            case Paused():
                logger.warning("job %s (%s) waits: %s", lease.job_id, lease.kind, outcome.message)
                self._store.retry_job(lease, now, outcome.message, now)  # it is the breaker that waits
            case Retry():
                logger.warning("job %s (%s) is tried again: %s", lease.job_id, lease.kind, outcome.error)
                self._store.retry_job(lease, now + _wait_ms(lease, outcome), outcome.error, now)


def _rereads(parts: Parts) -> bool:
    settings = parts.config.memory.extraction
    return parts.llm is not None and settings.enabled and settings.reread_rule_made


def _wait_ms(lease: Lease, outcome: Retry) -> int:
    if outcome.after_seconds is not None:
        return max(0, round(outcome.after_seconds * 1000))
    return min(LAST_RETRY_MS, FIRST_RETRY_MS << min(lease.attempts, 20))
