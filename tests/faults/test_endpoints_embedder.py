"""An hour with an embedder that cannot be had: no model call is paid twice, no layer waits for it, and afterwards every
text has its vector (traps B36, B78, B82)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_openai import FakeEndpoint, running
from layer_parts import capture
from memory_tencentdb_worker.config.model import Config, Embedding
from memory_tencentdb_worker.embedding.base import Embedder
from memory_tencentdb_worker.embedding.build import build_embedder
from memory_tencentdb_worker.errors import EmbeddingTransient
from pipeline_parts import HttpLLM, LetterEmbedder, Stepped, stepped

CONFIG = Config()
MINUTE = 60_000
TURNS = 20


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with running() as fake:
        yield fake


def http_embedder(endpoint: FakeEndpoint) -> Embedder:
    built = build_embedder(
        Embedding(provider="openai", base_url=endpoint.url, model="fake", dimensions=64, api_key="sk-test")  # type: ignore[arg-type]
    )
    assert built is not None
    return built


def live_for_an_hour(run: Stepped) -> None:
    for number in range(TURNS):
        capture(run.store, CONFIG, f"I own {number} lighthouses.", now=run.clock(), session_key=f"s{number % 4}")
        run.run()
        run.clock.now += 3 * MINUTE


@pytest.mark.parametrize(
    "trouble",
    [
        {"status": 429, "code": "insufficient_quota", "message": "insufficient_quota: no money left"},
        {"status": 401, "code": "invalid_api_key", "message": "Incorrect API key provided."},
        {"status": 429, "code": "rate_limit", "message": "slow down"},
        {"status": 500, "code": "server_error", "message": "oops"},
    ],
)
def test_an_hour_without_vectors_costs_few_requests_and_no_second_model_call(
    tmp_path: Path, endpoint: FakeEndpoint, trouble: dict[str, Any]
) -> None:
    endpoint.fail("http", times=-1, task="embeddings", **trouble)
    embedder = http_embedder(endpoint)
    with stepped(tmp_path, HttpLLM(endpoint.url), embedder=embedder) as run:
        live_for_an_hour(run)
        run.clock.now += 90 * MINUTE
        run.run()
        assert len(endpoint.calls("embeddings")) <= 14
        counts = run.store.counts()
        assert (counts.turns, counts.vectors) == (TURNS, 0)
        assert counts.atoms >= TURNS
        asked = [request.user for request in endpoint.calls("l1-extraction")]
        assert len(asked) == len(set(asked)), "an extraction was paid for twice"
        assert run.embedding.breaker.last_error

        endpoint.heal()
        run.clock.now += 30 * MINUTE
        run.run()
        vectors = run.store.vector_counts()
        assert (vectors.embedded, vectors.refused) == (vectors.rows, 0)
        assert [request.user for request in endpoint.calls("l1-extraction")] == asked
        assert run.embedding.breaker.last_error == ""
    embedder.close()


def test_reconcile_does_not_ask_an_embedder_that_is_left_alone(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    embedder = LetterEmbedder(trouble=EmbeddingTransient("429", retry_after_seconds=600))
    with stepped(tmp_path, HttpLLM(endpoint.url), embedder=embedder) as run:
        for number in range(5):
            capture(run.store, CONFIG, f"I own {number} lighthouses.", now=run.clock(), session_key=f"s{number}")
            run.run()
        assert run.store.counts().atoms == 5
        assert embedder.calls == 1


def test_a_refused_text_is_recorded_and_asked_again_only_when_a_person_wishes(tmp_path: Path) -> None:
    embedder = LetterEmbedder(refuses="zzz")
    with stepped(tmp_path, None, embedder=embedder) as run:
        capture(run.store, CONFIG, "hello zzz", "fine")
        run.run()
        assert run.store.vector_counts().refused == 1
        assert "1 of 2 texts were refused" in run.embedding.breaker.last_error
        capture(run.store, CONFIG, "hello again", "fine", turn_id="t2")
        run.run()
        assert "hello zzz" not in embedder.texts[2:]
        embedder.refuses = "\x00"
        run.store.make_due(run.clock(), expedite=True, parked=True)
        run.run()
        vectors = run.store.vector_counts()
        assert (vectors.embedded, vectors.refused) == (vectors.rows, 0)
