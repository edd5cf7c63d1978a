"""Works on a replay: a shadow store in which the ordinary jobs read L0 once more, while the memories in use serve.

One thread, which gives way to the jobs of the store in use. What it has done stands in the shadow's own file, so that
it goes on there after a crash.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import tzinfo

from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.layers.parts import Parts
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import BY_RULES, Completion, CompletionRequest
from memory_tencentdb_worker.pipeline.budget import DayBudget
from memory_tencentdb_worker.pipeline.model_jobs import KINDS, ModelJobs
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.generations import BUILDING, Generation, Generations
from memory_tencentdb_worker.store.sqlite import SqliteStore

logger = logging.getLogger(__name__)

GIVE_WAY_SECONDS = 0.5
LOOK_SECONDS = 5.0
IDLE_SECONDS = 60.0
"""Between two looks when there is nothing to make; whoever begins a replay wakes the thread."""

STOP_SECONDS = 2.0


class ReplayLLM:
    """The model of a replay: its calls stand in the ledger with the replay's id. `model` "" is the one configured."""

    def __init__(self, llm: LLM, generation: str, model: str) -> None:
        self._llm, self._generation, self._model = llm, generation, model

    @property
    def model(self) -> str:
        return self._model or self._llm.model

    @property
    def endpoint(self) -> str:
        return self._llm.endpoint

    def complete(self, request: CompletionRequest) -> Completion:
        model = self._model or request.model
        return self._llm.complete(replace(request, generation=self._generation, model=model))

    def close(self) -> None:
        """The model is the pipeline's."""


class Replay:
    """`llm` is asked before each job for the model in use; `changed` is told when other memories are in use."""

    def __init__(
        self,
        generations: Generations,
        store: Store,
        config: Config,
        zone: tzinfo,
        clock: Callable[[], int],
        *,
        llm: Callable[[], LLM | None],
        budget: DayBudget,
        changed: Callable[[], None],
    ) -> None:
        self._generations, self._store, self._config, self._zone = generations, store, config, zone
        self._clock, self._llm, self._budget, self._changed = clock, llm, budget, changed
        self._stopping, self._news = threading.Event(), threading.Event()
        self._working = threading.Lock()  # held for the length of one job, and while the shadow is changed or used
        self._shadow: SqliteStore | None = None
        self._jobs: ModelJobs | None = None
        self._of: tuple[str, LLM | None] | None = None
        self._grown = False  # turns came to a finished one
        self._thread = threading.Thread(target=self._run, name="memory-replay", daemon=True)
        self.waits_for = ""
        """Why nothing happens, "" while something does."""

    @property
    def generations(self) -> Generations:
        return self._generations

    def start(self) -> None:
        """Goes on with what a former worker left. Raises StoreError."""
        self._generations.tidy()
        self._thread.start()

    def end(self) -> None:
        """Begins no further job. To be called before the model is closed, `stop` after it."""
        self._stopping.set()
        self._news.set()

    def stop(self) -> None:
        """A job that is under way is given back. Safe to call twice."""
        self.end()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)
        if self._working.acquire(timeout=STOP_SECONDS):
            self._close_shadow()
            self._working.release()

    @property
    def working(self) -> bool:
        """A replay is being made: the worker is needed. Raises StoreError."""
        shadow = self._generations.shadow()
        return shadow is not None and shadow.state == BUILDING and not self.waits_for

    # ---- what a person asks for
    def begin(self, scope: str | None, model: str) -> Generation:
        """Raises StoreError `replay_exists`."""
        with self._working:
            begun = self._generations.begin(uuid.uuid4().hex[:12], scope, model, self._clock())
        self._news.set()
        return begun

    def switch(self) -> Generation:
        """Uses what was made; returns what was in use, kept. Raises StoreError."""
        with self._working:
            shadow = self._generations.shadow()
            if shadow is None or shadow.state == BUILDING:
                raise StoreError("there is no finished replay to switch to", code="replay_not_ready")
            opened = self._opened(shadow)
            self._generations.check(opened)
            self._catch_up(shadow, opened)
            self._close_shadow()
            return self._swap(shadow)

    def roll_back(self) -> Generation:
        """Uses what is kept again; returns what was in use, kept in its place. Raises StoreError."""
        with self._working:
            kept = self._generations.kept()
            if kept is None:
                raise StoreError("nothing is kept to go back to", code="nothing_kept")
            return self._swap(kept)

    def abandon(self) -> Generation:
        """Raises NotFound."""
        with self._working:
            self._close_shadow()
            return self._generations.abandon()

    def drop_generations(self) -> int:
        """Something is forgotten: neither a kept generation nor one in the making may hold it.
        Returns how many went."""
        with self._working:
            self._close_shadow()
            return self._generations.drop_all()

    # ---- the thread
    def _run(self) -> None:
        while not self._stopping.is_set():
            self._news.clear()
            try:
                wait = self._round()
            except StoreError as error:
                self._note(f"{error.code}: {error}")
                wait = LOOK_SECONDS
            except Exception as error:  # top of the thread: it must outlive every defect
                logger.exception("the replay goes on after a defect")
                self._note(f"{type(error).__name__}: {error}")
                wait = LOOK_SECONDS
            if wait:
                self._news.wait(wait)

    def _round(self) -> float:
        """One job, or a look whether there is one. Returns how long to wait before the next round."""
        with self._working:
            generation = self._generations.shadow()
            if generation is None or self._stopping.is_set():
                self._close_shadow()
                return IDLE_SECONDS
            due_at = self._store.next_due_at(KINDS)
            if due_at is not None and due_at <= self._clock():
                return GIVE_WAY_SECONDS
            shadow = self._opened(generation)
            jobs = self._jobs_of(generation, shadow)
            if jobs is None:
                return LOOK_SECONDS
            if jobs.run_due():
                self._note("")
                return 0.0
            return self._rest(generation, shadow, jobs)

    def _rest(self, generation: Generation, shadow: SqliteStore, jobs: ModelJobs) -> float:
        """Nothing is due: it is finished, or something waits for its next try."""
        copied = self._catch_up(generation, shadow)
        if copied:
            return 0.0
        if shadow.idle():
            if generation.state == BUILDING or self._grown:
                self._generations.check(shadow)
                self._generations.ready(generation, shadow, self._clock())
                self._grown = False
                logger.info("the replay %s is finished: `memory-tencentdb replay diff` shows it", generation.id)
            self._note("")
            return IDLE_SECONDS
        if shadow.next_due_at(KINDS) is None:  # something was forgotten in it: what is left is read again
            self._grown = True
            shadow.make_due(self._clock(), expedite=True)
            return GIVE_WAY_SECONDS
        failing = shadow.failing_jobs(1)
        self._note(failing[0].error if failing else jobs.breaker.last_error)
        return LOOK_SECONDS

    def _catch_up(self, generation: Generation, shadow: SqliteStore) -> int:
        copied = self._generations.catch_up(generation, shadow)
        if copied:
            self._grown = True
            shadow.make_due(self._clock(), expedite=True)
        return copied

    def _jobs_of(self, generation: Generation, shadow: SqliteStore) -> ModelJobs | None:
        """None: its model cannot be asked now, and rules do not stand in for it."""
        llm = None if generation.model == BY_RULES else self._llm()
        if llm is None and generation.model != BY_RULES:
            self._note("there is no model now: the replay goes on when there is one")
            return None
        if llm is not None and (pause := self._budget.look()) is not None:
            self._note(pause.message)
            return None
        key = (generation.id, llm)
        if self._jobs is None or self._of != key:
            used = llm and ReplayLLM(llm, generation.id, generation.model)
            parts = Parts(shadow, used, None, self._config, self._zone)
            owner = f"replay-{uuid.uuid4().hex}"
            self._jobs = ModelJobs(shadow, parts, self._clock, owner=owner, stopping=self._stopping)
            self._of = key
        return self._jobs

    def _opened(self, generation: Generation) -> SqliteStore:
        if self._shadow is None:
            self._shadow = self._generations.open_shadow(generation.id, self._clock())
            self._shadow.recover_leases(0)  # due before all others: the order of reading is what it would have been
        return self._shadow

    def _close_shadow(self) -> None:
        if self._shadow is not None:
            self._shadow.close()
        self._shadow, self._jobs, self._of = None, None, None

    def _swap(self, source: Generation) -> Generation:
        kept = self._generations.swap(source, uuid.uuid4().hex[:12], self._clock())
        self._changed()
        return kept

    def _note(self, waits_for: str) -> None:
        if waits_for and waits_for != self.waits_for:
            logger.warning("the replay waits: %s", waits_for)
        self.waits_for = waits_for
