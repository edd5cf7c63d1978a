"""A person who flushes does not have to wait for the next probe, and does not make a storm of them either."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

import pytest

from fake_openai import FakeEndpoint, running
from memory_tencentdb.wire import CaptureRequest, FlushRequest, FlushResponse
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.pipeline.breaker import EndpointBreaker
from memory_tencentdb_worker.pipeline.loop import Pipeline
from memory_tencentdb_worker.store.sqlite import open_store
from pipeline_parts import Clock, HttpLLM, wait_for
from service_parts import Built, build_service

MINUTE = 60_000


@dataclass
class Rig:
    built: Built
    pipeline: Pipeline
    endpoint: FakeEndpoint

    def flush(self, wait_seconds: float, **more: bool) -> FlushResponse:
        return self.built.service.flush(FlushRequest(wait_seconds=wait_seconds, **more))  # type: ignore[arg-type]

    def paused(self) -> bool:
        return self.pipeline.breaker_states()["llm"] == "open"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    clock, config = Clock(), Config()
    store = open_store(tmp_path / "data", clock())
    pipeline = Pipeline(store, config, UTC, clock)
    built = build_service(store, tmp_path, config=config, pipeline=pipeline, clock=clock)
    with running() as endpoint:
        llm = HttpLLM(endpoint.url)
        built.service.use_llm(llm, "config")
        pipeline.start()
        yield Rig(built, pipeline, endpoint)
        built.service.close()
        pipeline.stop(5)
        llm.close()
    store.close()


def test_a_flush_asks_a_paused_endpoint_once_and_says_why_nothing_moves(rig: Rig) -> None:
    rig.endpoint.fail("http", times=-1, status=402)
    rig.built.service.capture(CaptureRequest("I like tea.", "ok", "s1"))
    wait_for(rig.paused, "the pause")
    assert len(rig.endpoint.requests) == 1
    answer = rig.flush(0.6)
    assert (answer.idle, len(rig.endpoint.requests)) == (False, 2)
    assert (answer.reasons[0]["code"], answer.reasons[0]["message"]) == ("llm_quota", "402")
    assert answer.reasons[0]["action"]
    assert rig.flush(0.3, ask_again=False).idle is False
    assert len(rig.endpoint.requests) == 2, "the later slices of one flush do not ask"


def test_a_flush_after_the_account_was_mended_does_everything_at_once(rig: Rig) -> None:
    rig.endpoint.fail("http", times=-1, status=402)
    for number in range(3):
        rig.built.service.capture(CaptureRequest(f"I own {number} cats.", "ok", f"s{number}"))
    wait_for(rig.paused, "the pause")
    rig.endpoint.heal()
    answer = rig.flush(10)
    assert (answer.idle, answer.reasons) == (True, [])
    assert rig.built.store.counts().atoms == 3
    assert rig.built.service.refresh_state() == "ok"


def test_wished_probes_do_not_lengthen_the_waits() -> None:
    breaker, now = EndpointBreaker(), 0
    breaker.opened(now, "quota", "no money")
    for _ in range(10):
        now += 1_000
        breaker.ask_again(now)
        assert breaker.state(now) == "half-open"
        assert breaker.opened(now, "quota", "no money") == now + MINUTE
    breaker.failed(now, "busy")
    breaker.ask_again(now)
    assert breaker.failed(now, "busy") == now + 30_000


def test_a_time_that_the_endpoint_named_is_kept() -> None:
    breaker = EndpointBreaker()
    breaker.failed(0, "busy", retry_after_seconds=7)
    breaker.ask_again(1_000)
    assert not breaker.allows(6_999)
    assert breaker.allows(7_000)
