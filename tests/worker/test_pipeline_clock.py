"""Clocks that jump by days stop neither jobs nor probes."""

from __future__ import annotations

from pathlib import Path

from layer_parts import START, ScriptedLLM, capture, remember
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import LLMTerminal
from memory_tencentdb_worker.models import JobKind
from memory_tencentdb_worker.pipeline.breaker import LONGEST_RETRY_AFTER_MS, EndpointBreaker
from memory_tencentdb_worker.store.sqlite import open_store
from pipeline_parts import Clock, running_pipeline, wait_for

CONFIG = Config()
DAY_SECONDS = 86_400
DAY_MS = 1000 * DAY_SECONDS


def test_jobs_of_a_clock_that_was_set_back_are_done(tmp_path: Path) -> None:
    with running_pipeline(tmp_path) as run:
        capture(run.store, CONFIG, "I like tea.", now=run.clock())
        run.flush()
        run.pass_time(3 * DAY_SECONDS)
        capture(run.store, CONFIG, "I like chess.", now=run.clock())  # due when its session has been idle
        run.pipeline.wake()
        run.pass_time(-3 * DAY_SECONDS)
        wait_for(lambda: run.store.counts().atoms == 2, "the job of three days ahead")


def test_a_worker_that_starts_after_the_clock_was_set_back_finds_its_jobs(tmp_path: Path) -> None:
    store = open_store(tmp_path, START)
    for number in range(2):
        capture(store, CONFIG, f"I own {number} cats.", now=START + 3 * DAY_MS, session_key=f"s{number}")
    store.lease_job([JobKind.L1], START + 3 * DAY_MS, 60_000, "dead")
    store.close()
    with running_pipeline(tmp_path) as run:
        wait_for(lambda: run.store.counts().atoms == 2, "both jobs")


def test_a_jump_forward_makes_due_and_loses_nothing(tmp_path: Path) -> None:
    with running_pipeline(tmp_path) as run:
        for number in range(3):
            capture(run.store, CONFIG, f"I own {number} cats.", now=run.clock())
        run.pass_time(30 * DAY_SECONDS)
        wait_for(lambda: run.store.counts().atoms == 3, "all of them")
        run.pass_time(DAY_SECONDS)
        wait_for(lambda: run.store.persona(""), "the persona")


def test_what_is_due_within_the_schedules_own_times_is_left_alone(tmp_path: Path) -> None:
    with running_pipeline(tmp_path) as run:
        capture(run.store, CONFIG, "I like tea.", now=run.clock())
        run.flush()
        capture(run.store, CONFIG, "I like chess.", now=run.clock())
        due_at = run.store.next_due_at([JobKind.L1])
        run.pass_time(-5)
        run.pipeline.stop(5)
        assert run.store.next_due_at([JobKind.L1]) == due_at


def test_a_pause_ends_although_the_clock_was_set_back(tmp_path: Path) -> None:
    llm = ScriptedLLM()
    llm.script("l1-extraction", LLMTerminal("402", code="quota"), remember("The user likes tea."))
    with running_pipeline(tmp_path, clock=Clock(START + 3 * DAY_MS)) as run:
        run.pipeline.use_llm(llm)
        capture(run.store, CONFIG, "I like tea.", now=run.clock())
        run.pipeline.wake()
        wait_for(lambda: run.pipeline.breaker_states()["llm"] == "open", "the pause")
        run.pass_time(-3 * DAY_SECONDS)
        wait_for(lambda: run.store.counts().atoms == 1, "the probe")


def test_a_breaker_waits_no_longer_than_any_wait_is() -> None:
    breaker = EndpointBreaker()
    free_at = breaker.failed(10 * DAY_MS, "busy", retry_after_seconds=3600)
    assert not breaker.allows(free_at - LONGEST_RETRY_AFTER_MS)
    assert breaker.allows(free_at - LONGEST_RETRY_AFTER_MS - 1)
