"""A store with conversations that were read once, and a replay over it, with a model that computes its answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

import fake_openai_answers as answers
from layer_parts import START, capture
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.layers.parts import Parts
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import Atom, Completion, CompletionRequest
from memory_tencentdb_worker.pipeline.budget import DayBudget
from memory_tencentdb_worker.pipeline.ledger import LedgerLLM
from memory_tencentdb_worker.pipeline.model_jobs import ModelJobs
from memory_tencentdb_worker.pipeline.replay import Replay
from memory_tencentdb_worker.store.generations import READY, Generations
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from pipeline_parts import Clock, wait_for

FIRST, SECOND = "first-model", "second-model"


@dataclass
class ComputedLLM:
    """Answers as the scripted endpoint does; the second model says every memory in words of its own. After `left`
    calls it stops and waits, until `gate` is open."""

    model: str = FIRST
    endpoint: str = "nowhere"
    left: int = 1_000_000
    gate: threading.Event = field(default_factory=threading.Event)
    stopped: threading.Event = field(default_factory=threading.Event)

    def complete(self, request: CompletionRequest) -> Completion:
        if self.left <= 0:
            self.stopped.set()
            self.gate.wait(10)
        self.left -= 1
        answer = answers.compute(request.task, request.user)
        model = request.model or self.model
        if model == SECOND and request.task == "l1-extraction":
            for scene in answer:
                scene["memories"] = [
                    {**memory, "content": f"Told: {memory['content']}"} for memory in scene["memories"]
                ]
        return Completion(json.dumps(answer), "stop", model, 100, 20, 0.001, 1)

    def close(self) -> None:
        self.gate.set()


@dataclass
class Replayed:
    """`store` and `replay` with the live jobs, run by hand."""

    store: SqliteStore
    replay: Replay
    live: ModelJobs
    clock: Clock
    config: Config
    said: int = 0

    @property
    def generations(self) -> Generations:
        return self.replay.generations

    def say(self, *texts: str, session: str = "s1", scope: str = "") -> None:
        for text in texts:
            self.said += 1
            place = {"session_key": session, "user_id": scope, "turn_id": f"turn-{self.said}"}
            capture(self.store, self.config, text, now=self.clock(), **place)

    def read(self) -> None:
        """All that is due or pending, by the live pipeline."""
        self.store.make_due(self.clock(), expedite=True)
        while self.live.run_due():
            pass

    def finish(self) -> str:
        """Waits for the replay; returns the hash of what it has made."""
        wait_for(self._ready, f"the replay ({self.replay.waits_for})")
        shadow = self.generations.shadow()
        assert shadow is not None
        return shadow.hash

    def texts(self, scope: str | None = "") -> list[str]:
        return sorted(atom.content for atom in self.atoms(scope))

    def atoms(self, scope: str | None = "") -> list[Atom]:
        return self.generations.live_atoms(None, scope)

    def _ready(self) -> bool:
        shadow = self.generations.shadow()
        return shadow is not None and shadow.state == READY


@contextmanager
def replaying(data_dir: Path, llm: LLM | None = None, *, config: Config | None = None) -> Iterator[Replayed]:
    config, clock = config or Config(), Clock(START)
    llm = llm or ComputedLLM()
    store = open_store(data_dir, clock())
    ledger = LedgerLLM(llm, store, clock)
    parts = Parts(store, ledger, None, config, UTC)
    live = ModelJobs(store, parts, clock, owner="live", stopping=threading.Event())
    budget = DayBudget(store, config.memory.budget, UTC, clock)
    replay = Replay(
        Generations(store), store, config, UTC, clock, llm=lambda: ledger, budget=budget, changed=lambda: None
    )
    replay.start()
    try:
        yield Replayed(store, replay, live, clock, config)
    finally:
        replay.end()
        llm.close()
        replay.stop()
        store.close()
