"""Another embedding model on a store with vectors, through a real worker that dies in the middle."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fake_openai import FakeEndpoint, running
from processes import WorkerProcess

TURNS = 60
OLD, NEW = "old-model", "new-model"
QUIET = {"everyNConversations": 1_000, "enableWarmup": False, "l1IdleTimeoutSeconds": 86_400}


def worker_with(endpoint: FakeEndpoint, home: Path, model: str, dimensions: int) -> WorkerProcess:
    embedding = {"provider": "openai", "baseUrl": endpoint.url, "apiKey": "k", "model": model, "dimensions": dimensions}
    return WorkerProcess(home, {"memory": {"embedding": embedding, "pipeline": QUIET}})


def embedding_of(worker: WorkerProcess) -> dict[str, Any]:
    part: dict[str, Any] = worker.get("/v1/status").json()["embedding"]
    return part


def wait_for_vectors(worker: WorkerProcess, least: int) -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        embedded = int(embedding_of(worker)["embedded"])
        if embedded >= least:
            return embedded
        time.sleep(0.02)
    raise AssertionError(f"fewer than {least} vectors: {embedding_of(worker)}")


def models_asked(endpoint: FakeEndpoint, since: int = 0) -> list[str]:
    return [str(request.body["model"]) for request in endpoint.calls("embeddings")[since:]]


def test_a_change_of_model_survives_kill_9_and_is_served_from_the_old_space_until_it_is_whole(tmp_path: Path) -> None:
    with running(dim=16) as endpoint:
        worker = worker_with(endpoint, tmp_path / "home", OLD, 16)
        worker.start()
        for number in range(TURNS):
            worker.capture(f"fact number {number} about topic{number}", session="s")
        wait_for_vectors(worker, 2 * TURNS)
        worker.stop()

        endpoint.latency_seconds = 0.4  # so that there is a middle
        worker = worker_with(endpoint, tmp_path / "home", NEW, 24)
        worker.start()
        begun = wait_for_vectors(worker, 1)
        worker.kill()
        assert begun < 2 * TURNS

        worker.start()
        asked = len(endpoint.calls("embeddings"))
        found = worker.post("/search/conversations", {"query": "topic7", "limit": 5})
        assert found["strategy"] == "hybrid"
        assert OLD in models_asked(endpoint, asked)  # the question went to the space that is whole
        assert embedding_of(worker)["model"] == NEW

        endpoint.latency_seconds = 0
        wait_for_vectors(worker, 2 * TURNS)
        asked = len(endpoint.calls("embeddings"))
        worker.post("/search/conversations", {"query": "topic8", "limit": 5})
        assert models_asked(endpoint, asked) == [NEW]
        embedding = embedding_of(worker)
        assert embedding["rows"] == embedding["embedded"] == 2 * TURNS
        worker.stop()
        refilled = [len(one.body["input"]) for one in endpoint.calls("embeddings") if one.body["model"] == NEW]
        assert sum(refilled) <= 2 * TURNS + 64 + 2  # what the dead worker had stored was not made again
        assert endpoint.calls("chat") == []


def test_a_new_endpoint_that_fails_leaves_the_old_vectors_in_place(tmp_path: Path) -> None:
    with running(dim=16) as endpoint:
        worker = worker_with(endpoint, tmp_path / "home", OLD, 16)
        worker.start()
        for number in range(5):
            worker.capture(f"fact number {number}", session="s")
        wait_for_vectors(worker, 10)
        worker.stop()
        endpoint.fail("http", times=-1, status=500)
        worker = worker_with(endpoint, tmp_path / "home", NEW, 24)
        worker.start()
        assert embedding_of(worker)["embedded"] == 0
        worker.stop()
        endpoint.heal()
        made = len(endpoint.calls("embeddings"))
        worker = worker_with(endpoint, tmp_path / "home", OLD, 16)
        worker.start()
        assert embedding_of(worker)["embedded"] == 10
        worker.stop()
        assert models_asked(endpoint, made) == []
