"""Flush and session end with the real pipeline at work, offline."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb.wire import CaptureRequest, FlushRequest, RecallRequest, SessionEndRequest
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.pipeline.loop import Pipeline
from memory_tencentdb_worker.store.projections import Projector
from memory_tencentdb_worker.store.sqlite import open_store
from service_parts import Built, build_service


def wall_clock() -> int:
    return int(time.time() * 1000)


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Built]:
    store = open_store(tmp_path / "data", wall_clock())
    config = Config.model_validate({"memory": {"pipeline": {"enableWarmup": False}}})
    pipeline = Pipeline(store, config, UTC, wall_clock, Projector(store, tmp_path / "data", UTC))
    made = build_service(store, tmp_path, config=config, pipeline=pipeline, clock=wall_clock)  # type: ignore[arg-type]
    pipeline.start()
    yield made
    made.service.close()
    pipeline.stop(5)
    store.close()


def capture(built: Built, text: str, session_key: str, **more: Any) -> None:
    built.service.capture(CaptureRequest(text, "Noted.", session_key, **more))


def test_a_flush_returns_when_every_layer_has_done_its_work(built: Built) -> None:
    capture(built, "My sister Ana lives in Porto.", "a")
    capture(built, "I work as a nurse.", "b")
    assert built.store.counts().atoms == 0
    answer = built.service.flush(FlushRequest(wait_seconds=10))
    assert answer.idle
    assert answer.jobs_done >= 4
    counts = built.store.counts()
    assert (counts.atoms, counts.personas) == (2, 1)
    assert counts.scenes >= 1
    again = built.service.flush(FlushRequest(wait_seconds=10))
    assert (again.idle, again.jobs_done) == (True, 0)


def test_after_a_flush_the_readable_files_show_what_was_learned(built: Built, tmp_path: Path) -> None:
    capture(built, "My sister Ana lives in Porto.", "a")
    assert built.service.flush(FlushRequest(wait_seconds=10)).idle
    assert "Ana" in (tmp_path / "data" / "persona.md").read_text()


def test_a_flush_of_one_session_does_not_wait_for_the_others(built: Built) -> None:
    capture(built, "My sister Ana lives in Porto.", "a")
    capture(built, "I work as a nurse.", "b")
    answer = built.service.flush(FlushRequest(session_key="a", wait_seconds=10))
    assert answer.idle
    assert answer.waited_seconds < 5
    assert built.store.counts().atoms == 1
    assert len(built.store.unextracted("", 10, "b")) == 2


def test_the_end_of_a_session_makes_its_work_due_and_may_come_twice(built: Built) -> None:
    capture(built, "My sister Ana lives in Porto.", "a")
    assert built.service.session_end(SessionEndRequest("a")).jobs == 1
    deadline = time.monotonic() + 5
    while built.store.counts().atoms == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert built.store.counts().atoms == 1
    assert built.service.session_end(SessionEndRequest("a")).flushed


def test_users_are_flushed_apart(built: Built) -> None:
    capture(built, "My sister Ana lives in Porto.", "a", user_id="alice")
    capture(built, "I work as a nurse.", "a", user_id="bob")
    assert built.service.flush(FlushRequest(session_key="a", user_id="alice", wait_seconds=10)).idle
    assert built.store.counts("alice").atoms == 1
    assert built.store.counts("bob").atoms == 0
    answer = built.service.recall(RecallRequest("sister", "x", user_id="bob"))
    assert answer.context == ""
