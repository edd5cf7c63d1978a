"""A job belongs to one worker for as long as it runs, however long that takes."""

from __future__ import annotations

import threading
import time
from datetime import UTC
from pathlib import Path

from layer_parts import ScriptedLLM, capture, remember
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.layers.parts import Parts
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import Completion, CompletionRequest, JobKind
from memory_tencentdb_worker.pipeline.heartbeat import kept_lease
from memory_tencentdb_worker.pipeline.model_jobs import ModelJobs
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store

CONFIG = Config()
LEASE_MS = 300


class SlowLLM(ScriptedLLM):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_for, self.go = threading.Event(), threading.Event()

    def complete(self, request: CompletionRequest) -> Completion:
        self.asked_for.set()
        assert self.go.wait(20)
        return super().complete(request)


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


def jobs_of(store: SqliteStore, llm: LLM, owner: str) -> ModelJobs:
    parts = Parts(store, llm, None, CONFIG, UTC)
    return ModelJobs(store, parts, wall_clock, owner=owner, stopping=threading.Event(), lease_ms=LEASE_MS)


def test_a_call_that_outlasts_its_lease_is_not_made_twice(tmp_path: Path) -> None:
    store = open_store(tmp_path, wall_clock())
    llm, other = SlowLLM(), ScriptedLLM()
    llm.script("l1-extraction", remember("The user likes tea."))
    capture(store, CONFIG, "I like tea.", now=wall_clock())
    first, second = jobs_of(store, llm, "first"), jobs_of(store, other, "second")
    running = threading.Thread(target=first.run_due)
    running.start()
    try:
        assert llm.asked_for.wait(10)
        until = time.monotonic() + 4 * LEASE_MS / 1000
        while time.monotonic() < until:
            assert not second.run_due(), "the job was taken from the worker that runs it"
            time.sleep(0.02)
    finally:
        llm.go.set()
        running.join(20)
    assert (len(llm.requests), other.requests) == (1, [])
    assert store.counts().atoms == 1
    store.close()


def test_a_lease_that_was_taken_away_is_not_fought_for(tmp_path: Path) -> None:
    store = open_store(tmp_path, wall_clock())
    capture(store, CONFIG, "I like tea.", now=wall_clock())
    lost = store.lease_job([JobKind.L1], wall_clock(), LEASE_MS, "first")
    assert lost is not None
    store.recover_leases(wall_clock())
    taken = store.lease_job([JobKind.L1], wall_clock(), 60_000, "second")
    assert taken is not None
    with kept_lease(store, lost, 30, wall_clock):
        time.sleep(0.1)
    assert store.heartbeat(taken, wall_clock() + 60_000)
    assert store.job_counts(wall_clock()).running == 1
    store.close()


def test_after_the_block_nothing_is_extended(tmp_path: Path) -> None:
    store = open_store(tmp_path, wall_clock())
    capture(store, CONFIG, "I like tea.", now=wall_clock())
    lease = store.lease_job([JobKind.L1], wall_clock(), 30, "first")
    assert lease is not None
    with kept_lease(store, lease, 30, wall_clock):
        time.sleep(0.1)
    time.sleep(0.1)
    assert store.job_counts(wall_clock()).due == 1
    store.close()
