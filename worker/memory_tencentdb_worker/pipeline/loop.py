"""The pipeline: two threads over durable jobs. One runs the layers; one makes vectors and keeps the files up to date.

Nothing waits in memory: what is due stands in the store, so a worker that dies loses no work and a new one goes on.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Literal

from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.embedding.base import Embedder
from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.layers.parts import Parts
from memory_tencentdb_worker.layers.schedule import longest_delay_ms
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.pipeline.breaker import LONGEST_RETRY_AFTER_MS, EndpointBreaker
from memory_tencentdb_worker.pipeline.budget import DayBudget, costs_money
from memory_tencentdb_worker.pipeline.documents import Documents
from memory_tencentdb_worker.pipeline.embedding_jobs import KINDS as EMBED_KINDS
from memory_tencentdb_worker.pipeline.embedding_jobs import EmbeddingJobs
from memory_tencentdb_worker.pipeline.ledger import EmbeddingLedger
from memory_tencentdb_worker.pipeline.model_jobs import KINDS as MODEL_KINDS
from memory_tencentdb_worker.pipeline.model_jobs import ModelJobs
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.projections import Projector

logger = logging.getLogger(__name__)

LONGEST_WAIT_SECONDS = 30.0
"""A thread looks again after this long whatever happens: a clock that was set back must not stop it for hours."""

SHORTEST_WAIT_SECONDS = 0.05
"""A job that is due but may not run yet must not make its thread spin."""

TROUBLE_WAIT_SECONDS = 5.0
STUCK_SECONDS = 900.0
"""Longer than a job with four model calls, each at its time-out and with a start of the lane."""
SETTLE_SECONDS = 0.2
"""Files are written this long after a change, so that a burst of turns is written once."""

Endpoint = Literal["llm", "embedding"]


@dataclass(frozen=True)
class PauseReason:
    """Why something waits. `since` is an instant; `action` says what a person can do, "" what the code implies."""

    code: str
    message: str
    since: int
    action: str


class Pipeline:
    """Call `use_llm` and `use_embedder` at any time; `start` once; `stop` once, from any thread."""

    def __init__(
        self,
        store: Store,
        config: Config,
        zone: tzinfo,
        clock: Callable[[], int],
        projector: Projector | None = None,
        ledger: EmbeddingLedger | None = None,
    ) -> None:
        """`ledger` holds notes of the embedding endpoint's requests, which are written down here."""
        self._store, self._clock, self._ledger = store, clock, ledger
        self._longest_wait_ms = max(longest_delay_ms(config.memory.pipeline), LONGEST_RETRY_AFTER_MS)
        self._condition, self._stopping = threading.Condition(), threading.Event()
        owner = uuid.uuid4().hex
        self._owners = (f"{owner}-model", f"{owner}-index")
        self.budget = DayBudget(store, config.memory.budget, zone, clock)
        self._embedding_url = config.memory.embedding.base_url
        self._model_jobs = ModelJobs(
            store,
            Parts(store, None, None, config, zone),
            clock,
            owner=self._owners[0],
            stopping=self._stopping,
            budget=self.budget,
        )
        self._embedding_jobs = EmbeddingJobs(store, config.memory.embedding, clock, self._owners[1], self.budget)
        self._documents = Documents(store, projector, clock) if projector else None
        self._wakes = 0
        self._model_busy = False
        self._files_wakes = -1  # the latest wake whose changes the files show
        self._troubles: dict[str, PauseReason] = {}
        self._files_wanted_at = 0.0  # monotonic
        self._threads: list[threading.Thread] = []
        self._rounds: dict[str, float] = {}  # when each thread began its latest round, monotonic

    # ---- what the pipeline works with
    def use_llm(self, llm: LLM | None) -> None:
        """The model from the next job on; None: offline mode. A new model begins with a closed breaker. The former one
        is the caller's to close."""
        self._model_jobs.use(replace(self._model_jobs.parts, llm=llm))
        self.wake()

    def use_embedder(self, embedder: Embedder | None) -> None:
        """Its space becomes the store's. Where vectors cannot be used at all, there is a reason instead."""
        try:
            self._store.use_space(embedder.space if embedder else None)
            self._troubles.pop("vectors", None)
        except StoreError as error:
            embedder = None
            self._note_trouble("vectors", error)
        self._embedding_jobs.use(embedder)
        self.budget.counts_embedding = embedder is not None and costs_money(embedder.space, self._embedding_url)
        self._model_jobs.use(replace(self._model_jobs.parts, embedder=self._embedding_jobs.embedder))
        self.wake()

    def await_host_model(self) -> None:
        """To be called before `start`, where the host's model was in use and none is known yet: what a model would read
        waits for one, and rules read only what a flush asks for."""
        self._model_jobs.await_host_model()

    def ask_again(self) -> None:
        """A person wishes it: endpoints that are left alone may be asked once now. `wake` follows."""
        now = self._clock()
        self._model_jobs.breaker.ask_again(now)
        self._embedding_jobs.breaker.ask_again(now)

    @property
    def llm(self) -> LLM | None:
        """The model in use."""
        return self._model_jobs.llm

    # ---- life
    def start(self) -> None:
        """Takes up what a former worker left. Raises StoreError."""
        self._store.recover_leases(self._clock())
        loops = (
            ("memory-model", self._run_model, self._model_wait),
            ("memory-index", self._run_index, self._index_wait),
        )
        for name, work, wait in loops:
            thread = threading.Thread(target=self._loop, args=(name, work, wait), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def wake(self) -> None:
        """Something was stored or made due: look now."""
        with self._condition:
            self._wakes += 1
            self._files_wanted_at = min(self._files_wanted_at, time.monotonic() + SETTLE_SECONDS)
            self._condition.notify_all()

    def stop(self, timeout_seconds: float) -> None:
        """Running transactions finish; a model call that is still under way is abandoned. Leases are given back, so
        that the next worker begins at once. Safe to call twice."""
        until = time.monotonic() + timeout_seconds
        self._stopping.set()
        self.wake()
        self._join(time.monotonic() + timeout_seconds / 4)
        if any(thread.is_alive() for thread in self._threads) and self._model_jobs.llm is not None:
            self._model_jobs.llm.close()
        self._join(until)
        try:
            for owner in self._owners:
                self._store.release_leases(owner, self._clock())
            self._settle_ledger()
        except StoreError as error:
            logger.warning("leases run out by themselves, they could not be given back: %s", error)

    def files_current(self) -> bool:
        """Whether the readable files show everything that was stored before the latest `wake`. True as well when they
        cannot be written: there is a reason in `pause_reasons` then, and waiting would not help."""
        if self._documents is None or "files" in self._troubles:
            return True
        return not self._model_busy and self._files_wakes >= self._wakes

    # ---- what status shows
    def pause_reasons(self) -> list[PauseReason]:
        breakers: tuple[tuple[Endpoint, EndpointBreaker, str], ...] = (
            ("llm", self._model_jobs.breaker, "check the model's key, account and name (`config llm`)"),
            ("embedding", self._embedding_jobs.breaker, "check the embedder's key, account and settings"),
        )
        reasons = [_paused(kind, breaker, action) for kind, breaker, action in breakers if breaker.pause]
        used_up = self.budget.pause
        if used_up is not None:
            reasons.append(PauseReason(used_up.code, used_up.message, used_up.since, used_up.action))
        since = self._model_jobs.held_since
        held = [] if since is None else [replace(_HOST_AWAITED, since=since)]
        return [*reasons, *held, *list(self._troubles.values()), *self._lost_threads()]

    def breaker_states(self) -> dict[str, str]:
        """closed, open or half-open, by endpoint."""
        now = self._clock()
        return {"llm": self._model_jobs.breaker.state(now), "embedding": self._embedding_jobs.breaker.state(now)}

    def last_error(self, kind: Endpoint) -> str:
        """Of the latest call, "" when it went well."""
        return self._breaker(kind).last_error

    def last_ok_at(self, kind: Endpoint) -> int | None:
        return self._breaker(kind).last_ok_at

    # ---- the threads
    def _loop(self, name: str, work: Callable[[], bool], wait_seconds: Callable[[], float]) -> None:
        while not self._stopping.is_set():
            seen = self._wakes
            self._rounds[name] = time.monotonic()
            try:
                busy = work()
                wait = 0.0 if busy else wait_seconds()
                self._end_trouble(name)
            except StoreError as error:
                self._note_trouble(name, error)
                self._stopping.wait(TROUBLE_WAIT_SECONDS)
                self._give_back(name)
                continue
            except Exception as error:  # top of the thread: it must outlive every defect
                logger.exception("the %s thread goes on after a defect", name)
                self._note_trouble(name, error)
                self._stopping.wait(TROUBLE_WAIT_SECONDS)
                continue
            if not busy:
                self._rest(seen, wait)

    def _rest(self, seen: int, seconds: float) -> None:
        with self._condition:
            if self._wakes == seen and not self._stopping.is_set():
                self._condition.wait(min(max(seconds, SHORTEST_WAIT_SECONDS), LONGEST_WAIT_SECONDS))

    def _run_model(self) -> bool:
        """Whoever finds no work left in the store must not find the files current before they are (`files_current`)."""
        self._model_busy = True
        try:
            done = self._model_jobs.run_due()
            if done:
                self.wake()  # another job may be due now, also for the other thread, and files are stale
            return done
        finally:
            self._model_busy = False

    def _run_index(self) -> bool:
        self._pull_forward()
        if self._documents and time.monotonic() >= self._files_wanted_at:
            self._sync_files(self._documents)
        self._settle_ledger()
        done = self._embedding_jobs.run_due()
        self._settle_ledger()
        return done

    def _settle_ledger(self) -> None:
        if self._ledger is not None:
            self._ledger.settle()

    def _sync_files(self, documents: Documents) -> None:
        """Files that cannot be written hold up nothing else: they can be made again at any time."""
        with self._condition:
            self._files_wanted_at = time.monotonic() + LONGEST_WAIT_SECONDS
            seen = self._wakes
        try:
            edits = documents.sync()
            self._files_wakes = seen
            self._end_trouble("files")
        except (StoreError, OSError) as error:
            self._note_trouble("files", error)
            with self._condition:
                self._files_wanted_at = time.monotonic() + TROUBLE_WAIT_SECONDS
            return
        if edits:
            self.wake()

    def _model_wait(self) -> float:
        return self._seconds_until(self._model_jobs.next_at())

    def _index_wait(self) -> float:
        files = self._files_wanted_at - time.monotonic() if self._documents else LONGEST_WAIT_SECONDS
        return min(max(0.0, files), self._seconds_until(self._embedding_jobs.next_at()))

    def _seconds_until(self, at: int | None) -> float:
        return LONGEST_WAIT_SECONDS if at is None else max(0.0, (at - self._clock()) / 1000)

    def _pull_forward(self) -> None:
        """A clock that was set back leaves jobs that are due in a far future. Looked for in every round and not only
        when the step is seen: a clock may have gone forward and back between two looks."""
        kinds = (*MODEL_KINDS, *EMBED_KINDS)
        jobs = self._store.pull_forward(kinds, self._clock(), self._longest_wait_ms)
        if jobs:
            logger.warning("the clock was set back: %d jobs of its future are due now", jobs)
            self.wake()

    # ---- trouble
    def _note_trouble(self, name: str, error: Exception) -> None:
        match error:
            case StoreError():
                code = error.code
            case OSError():
                code = "files"
            case _:
                code, error = "pipeline_defect", RuntimeError(f"{name} fails: {type(error).__name__}: {error}")
        known = self._troubles.get(name)
        if known is None or known.code != code:
            logger.warning("%s waits: %s", name, error)
        since = known.since if known else self._clock()
        self._troubles[name] = PauseReason(code, str(error), since, "")

    def _end_trouble(self, name: str) -> None:
        if self._troubles.pop(name, None):
            logger.info("%s goes on", name)

    def _lost_threads(self) -> list[PauseReason]:
        """Threads that have ended by themselves, or whose present round has no end."""
        if self._stopping.is_set():
            return []
        lost: list[PauseReason] = []
        for thread in self._threads:
            quiet_seconds = time.monotonic() - self._rounds.get(thread.name, time.monotonic())
            since = self._clock() - round(quiet_seconds * 1000)
            if not thread.is_alive():
                lost.append(PauseReason("pipeline_dead", f"the {thread.name} thread has ended", since, ""))
            elif quiet_seconds > STUCK_SECONDS:
                message = f"the {thread.name} thread has not come to an end with its job"
                lost.append(PauseReason("pipeline_stuck", message, since, ""))
        return lost

    def _give_back(self, name: str) -> None:
        """A job that the store could not take back becomes due again as soon as the store answers."""
        owner = self._owners[0 if name == "memory-model" else 1]
        try:
            self._store.release_leases(owner, self._clock())
        except StoreError as error:
            logger.debug("leases are still held: %s", error)

    def _join(self, until: float) -> None:
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def _breaker(self, kind: Endpoint) -> EndpointBreaker:
        return self._model_jobs.breaker if kind == "llm" else self._embedding_jobs.breaker


_HOST_AWAITED = PauseReason(
    "llm_waiting_for_host_model",
    "the host's own model has read the conversations so far, and since its start this worker was offered none",
    0,
    "start Hermes, which brings its model, or name one (`memory-tencentdb config set llm.model NAME`);"
    " `memory-tencentdb flush` lets rules read what waits",
)


def _paused(kind: Endpoint, breaker: EndpointBreaker, action: str) -> PauseReason:
    pause = breaker.pause
    assert pause is not None
    code = pause.code if pause.code.startswith(kind) else f"{kind}_{pause.code}"
    return PauseReason(code, pause.message, pause.since, action)
