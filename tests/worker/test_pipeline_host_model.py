"""What the host's own model used to read waits for a model; rules read it only when a person asks for it."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from layer_parts import START, ScriptedLLM, capture, remember
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.models import Atom, Layer, Page
from memory_tencentdb_worker.pipeline.loop import Pipeline
from memory_tencentdb_worker.store.sqlite import open_store
from pipeline_parts import Clock, Running, wait_for

CONFIG = Config()


def waiting_pipeline(tmp_path: Path) -> Running:
    clock = Clock()
    store = open_store(tmp_path, clock())
    pipeline = Pipeline(store, CONFIG, UTC, clock)
    pipeline.await_host_model()
    pipeline.start()
    return Running(store, pipeline, clock, tmp_path)


def end(run: Running) -> None:
    run.pipeline.stop(5)
    run.store.close()


def extractors(run: Running) -> list[str]:
    rows = run.store.list_rows(Layer.L1, Page(limit=100, ascending=True), scope="").rows
    return [row.extractor for row in rows if isinstance(row, Atom)]


def test_turns_wait_for_the_hosts_model_and_status_says_so(tmp_path: Path) -> None:
    run = waiting_pipeline(tmp_path)
    run.pipeline.wake()
    assert run.pipeline.pause_reasons() == [], "nothing waits yet"
    capture(run.store, CONFIG, "I live in Lisbon.", now=run.clock())
    run.pipeline.wake()
    wait_for(run.pipeline.pause_reasons, "the reason")
    (reason,) = run.pipeline.pause_reasons()
    assert (reason.code, reason.since) == ("llm_waiting_for_host_model", START)
    assert "flush" in reason.action
    run.pass_time(3600)
    assert extractors(run) == []

    llm = ScriptedLLM()
    llm.script("l1-extraction", remember("The user lives in Lisbon."))
    run.pipeline.use_llm(llm)
    wait_for(lambda: extractors(run) == ["model:scripted"], "the model")
    wait_for(lambda: run.pipeline.pause_reasons() == [], "the reason to go")
    end(run)


def test_a_flush_lets_rules_read_what_waits_through_all_layers(tmp_path: Path) -> None:
    run = waiting_pipeline(tmp_path)
    capture(run.store, CONFIG, "I live in Lisbon.", now=run.clock())
    run.flush()
    assert extractors(run) == ["rules"]
    assert run.store.persona("") is not None
    capture(run.store, CONFIG, "I work as a nurse.", now=run.clock())
    run.pass_time(3600)
    wait_for(run.pipeline.pause_reasons, "the next turn to wait")
    assert extractors(run) == ["rules"]
    end(run)
