"""Many calls leave nothing behind: no socket, no thread, no memory (trap B117)."""

from __future__ import annotations

import threading
from pathlib import Path

import psutil

from fake_openai import FakeEndpoint, running
from memory_tencentdb_worker.config.model import Embedding, LLMSettings
from memory_tencentdb_worker.embedding.build import build_embedder
from memory_tencentdb_worker.llm.lane import LaneLLM
from memory_tencentdb_worker.models import CompletionRequest

WARM_UP, CALLS = 40, 160
REQUEST = CompletionRequest(
    task="chat", system="You answer.", user="Hello there", max_tokens=300, timeout_seconds=20, json_mode=False
)


def test_many_model_calls_leave_neither_sockets_nor_memory_in_the_lane(tmp_path: Path) -> None:
    with running() as endpoint:
        settings = LLMSettings.model_validate({"base_url": endpoint.url, "api_key": "sk-test", "model": "fake-model"})
        lane = LaneLLM(settings, tmp_path)
        try:
            for _ in range(WARM_UP):
                lane.complete(REQUEST)
            assert lane.pid is not None
            child = psutil.Process(lane.pid)
            before = child.memory_info().rss, child.num_fds(), child.num_threads()
            for _ in range(CALLS):
                lane.complete(REQUEST)
            after = child.memory_info().rss, child.num_fds(), child.num_threads()
        finally:
            lane.close()
    assert len(endpoint.requests) == WARM_UP + CALLS
    assert after[0] < 1.1 * before[0]
    assert after[1] <= before[1] + 3
    assert after[2] <= before[2] + 1


def test_many_embedding_calls_leave_neither_sockets_nor_threads(tmp_path: Path) -> None:
    with running() as endpoint:
        embed_many(endpoint, 10)
        here = psutil.Process()
        before = here.num_fds(), threading.active_count()
        embed_many(endpoint, 100)
    assert here.num_fds() <= before[0] + 3
    assert threading.active_count() <= before[1] + 2


def embed_many(endpoint: FakeEndpoint, calls: int) -> None:
    settings = Embedding.model_validate(
        {"provider": "openai", "base_url": endpoint.url, "model": "fake", "dimensions": 64, "api_key": "sk-test"}
    )
    embedder = build_embedder(settings)
    assert embedder is not None
    for number in range(calls):
        assert embedder.embed([f"text {number}"], kind="passage", timeout_seconds=5)[0]
    embedder.close()
