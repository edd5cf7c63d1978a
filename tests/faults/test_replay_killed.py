"""A replay over a real worker: killed while the model is asked, taken up again, switched to, and rolled back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_openai import FakeEndpoint, running
from processes import FAST_PIPELINE, WorkerProcess

TURNS = 12
PATIENCE_SECONDS = 40


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with running() as fake:
        yield fake


def shadow(worker: WorkerProcess) -> dict[str, Any]:
    document: dict[str, Any] = worker.get("/v1/replay/status").json()["shadow"]
    return document


def wait_until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.05)


def test_replay_killed_twice_is_finished_switched_to_and_rolled_back(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    config = {
        "llm": {"baseUrl": endpoint.url, "apiKey": "none", "model": "first"},
        "memory": {"pipeline": {**FAST_PIPELINE, "everyNConversations": 20, "enableWarmup": False}},
    }
    worker = WorkerProcess(tmp_path / "home", config)
    worker.start()
    try:
        for turn in range(TURNS):
            worker.capture(f"I own {turn + 2} red boats in harbour {turn}.", session=f"s{turn % 3}", turn_id=f"t{turn}")
        assert worker.flush()["idle"]
        begun = worker.post("/v1/replay", {"model": "second"})
        for kill in range(2):
            seen = len(endpoint.requests)
            endpoint.fail("hang", 1, "llm", seconds=30)
            wait_until(lambda seen=seen: len(endpoint.requests) > seen, f"the call before kill {kill}")
            worker.kill()
            endpoint.heal()
            worker.start()
        wait_until(lambda: shadow(worker)["state"] == "ready", "the end of the replay")
        made = shadow(worker)
        diff = worker.get("/v1/replay/diff").json()
        assert made["id"] == begun["id"]
        assert made["messages_read"] == made["messages"] == 2 * TURNS
        assert diff["counts"] == {"same": TURNS, "changed": 0, "only_old": 0, "only_new": 0}
        assert diff["spent"]["tokens_in"] > 0
        switched = worker.post("/v1/replay/switch", {})
        assert switched["kept"]["hash"] == diff["hash"]
        assert switched["hash"] == made["hash"] != diff["hash"]  # the model is part of what is hashed
        assert worker.flush()["idle"]
        back = worker.post("/v1/replay/rollback", {})
        assert back["hash"] == diff["hash"]
        assert worker.get("/v1/replay/status").json()["shadow"] is None
    finally:
        worker.stop()
