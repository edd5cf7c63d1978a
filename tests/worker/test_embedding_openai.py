"""The embedder against an endpoint of our own, over HTTP."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from fake_openai import FakeEndpoint, running
from memory_tencentdb_worker.config.model import Embedding
from memory_tencentdb_worker.embedding.answers import unit_vector
from memory_tencentdb_worker.embedding.build import build_embedder
from memory_tencentdb_worker.embedding.openai_http import OpenAIEmbedder
from memory_tencentdb_worker.errors import (
    ConfigError,
    EmbeddingError,
    EmbeddingRefused,
    EmbeddingTerminal,
    EmbeddingTransient,
)

KEY = "sk-embedding-secret-42"
DIM = 32
TEXTS = ["tea in the morning", "我喜欢喝绿茶", "a flight to Oslo", "deploy on Friday"]


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with running(dim=DIM) as fake:
        yield fake


@pytest.fixture
def embedder(endpoint: FakeEndpoint) -> Iterator[OpenAIEmbedder]:
    built = build(endpoint.url)
    yield built
    built.close()


def settings(url: str, **more: object) -> Embedding:
    values = {"provider": "openai", "base_url": url, "api_key": KEY, "model": "fake-emb", "dimensions": DIM}
    return Embedding.model_validate(values | more)


def build(url: str, **more: object) -> OpenAIEmbedder:
    built = build_embedder(settings(url, **more))
    assert isinstance(built, OpenAIEmbedder)
    return built


def embed(embedder: OpenAIEmbedder, texts: list[str], timeout_seconds: float = 10) -> list[list[float] | None]:
    return embedder.embed(texts, kind="passage", timeout_seconds=timeout_seconds)


def closeness(one: list[float] | None, other: list[float] | None) -> float:
    assert one is not None
    assert other is not None
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_texts_become_unit_vectors_in_order(embedder: OpenAIEmbedder, endpoint: FakeEndpoint) -> None:
    vectors = embed(embedder, [*TEXTS, TEXTS[0]])
    assert [len(vector or []) for vector in vectors] == [DIM] * 5
    assert all(math.isclose(math.hypot(*vector), 1) for vector in vectors if vector)
    assert closeness(vectors[0], vectors[4]) == pytest.approx(1)
    sent = endpoint.requests[-1]
    assert sent.body == {
        "model": "fake-emb",
        "input": [*TEXTS, TEXTS[0]],
        "encoding_format": "float",
        "dimensions": DIM,
    }
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert embedder.space.dimensions == DIM
    assert embed(embedder, []) == []


def test_blank_text_has_no_vector_and_is_not_sent(embedder: OpenAIEmbedder, endpoint: FakeEndpoint) -> None:
    assert [vector is None for vector in embed(embedder, ["", "tea", " \n"])] == [True, False, True]
    assert endpoint.requests[-1].body["input"] == ["tea"]


@pytest.mark.parametrize("mode", ["shuffled", "base64", "fewer"])
def test_an_odd_form_of_answer_gives_the_same_vectors(
    embedder: OpenAIEmbedder, endpoint: FakeEndpoint, mode: str
) -> None:
    expected = embed(embedder, TEXTS)
    endpoint.fail(mode)
    for one, other in zip(embed(embedder, TEXTS), expected, strict=True):
        assert closeness(one, other) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("mode", ["zero", "nan", "null", "strings"])
def test_an_answer_without_a_usable_vector_is_refused(
    embedder: OpenAIEmbedder, endpoint: FakeEndpoint, mode: str
) -> None:
    endpoint.fail(mode)
    with pytest.raises(EmbeddingRefused) as caught:
        embed(embedder, TEXTS)
    assert caught.value.code == "bad_vectors"


def test_a_bad_vector_costs_only_its_text() -> None:
    good = [3.0, 4.0]
    assert unit_vector(good, 2) == [0.6, 0.8]
    for bad in ([0.0, 0], [math.nan, 1.0], [math.inf, 1.0], None, ["1", "2"], [True, False], {}, "???", []):
        assert unit_vector(bad, 2) is None
    assert unit_vector([1e300, 1e300], 2) == pytest.approx([math.sqrt(0.5)] * 2)


def test_a_wrong_width_names_both_numbers(embedder: OpenAIEmbedder, endpoint: FakeEndpoint) -> None:
    endpoint.fail("wrong_dim", dim=8)
    with pytest.raises(EmbeddingRefused, match=rf"\b8\b.*\b{DIM}\b"):
        embed(embedder, TEXTS)


def test_the_largest_batch_is_learned(embedder: OpenAIEmbedder, endpoint: FakeEndpoint) -> None:
    endpoint.fail("max_inputs", times=-1, n=10)
    texts = [f"fact number {i}" for i in range(64)]
    assert all(embed(embedder, texts))
    assert embedder.largest_batch == 8
    before = len(endpoint.requests)
    assert all(embed(embedder, texts))
    assert len(endpoint.requests) == before + 8


def test_an_over_long_text_is_shortened_and_teaches_nothing(embedder: OpenAIEmbedder, endpoint: FakeEndpoint) -> None:
    endpoint.fail("max_chars", times=-1, n=2000)
    vectors = embed(embedder, ["short one", "很长的中文" * 4000, "short two"])
    assert all(vectors)
    assert max(len(text) for text in endpoint.requests[-1].body["input"]) <= 2000
    assert embedder.largest_batch == 256


def test_a_text_refused_at_any_length_has_no_vector(embedder: OpenAIEmbedder, endpoint: FakeEndpoint) -> None:
    endpoint.fail("max_chars", times=-1, n=30)
    assert [vector is None for vector in embed(embedder, ["fine", "x" * 600, "fine too"])] == [False, True, False]


@pytest.mark.parametrize(
    ("plan", "error", "code"),
    [
        ({"mode": "http", "status": 401, "message": f"bad key {KEY}"}, EmbeddingTerminal, "unauthorised"),
        ({"mode": "http", "status": 404, "code": "model_not_found"}, EmbeddingTerminal, "model_not_found"),
        ({"mode": "http", "status": 429, "code": "insufficient_quota"}, EmbeddingTerminal, "quota"),
        ({"mode": "http", "status": 500}, EmbeddingTransient, "server_error"),
        ({"mode": "html"}, EmbeddingTransient, "garbage"),
        ({"mode": "empty_body"}, EmbeddingTransient, "garbage"),
        ({"mode": "reset", "times": 2}, EmbeddingTransient, "unreachable"),
    ],
    ids=lambda value: "-".join(str(v) for v in list(value.values())[:2]) if isinstance(value, dict) else None,
)
def test_every_failure_has_its_class(
    embedder: OpenAIEmbedder, endpoint: FakeEndpoint, plan: dict[str, object], error: type[EmbeddingError], code: str
) -> None:
    endpoint.fail(**plan)  # type: ignore[arg-type]
    with pytest.raises(error) as caught:
        embed(embedder, TEXTS)
    assert caught.value.code == code
    assert KEY not in str(caught.value)
    assert all(embed(embedder, TEXTS))


def test_retry_after_is_handed_on(embedder: OpenAIEmbedder, endpoint: FakeEndpoint) -> None:
    endpoint.fail("http", status=429, code="rate_limit_exceeded", retry_after=3)
    with pytest.raises(EmbeddingTransient) as caught:
        embed(embedder, TEXTS)
    assert caught.value.retry_after_seconds == 3


def test_a_slow_endpoint_is_left_at_the_deadline(embedder: OpenAIEmbedder, endpoint: FakeEndpoint) -> None:
    endpoint.fail("hang", seconds=20)
    begun = time.monotonic()
    with pytest.raises(EmbeddingTransient) as caught:
        embed(embedder, TEXTS, timeout_seconds=0.3)
    assert caught.value.code == "timeout"
    assert time.monotonic() - begun < 1.5


def test_a_closed_kept_alive_connection_is_opened_again(embedder: OpenAIEmbedder, endpoint: FakeEndpoint) -> None:
    assert all(embed(embedder, TEXTS))
    endpoint.fail("reset")
    assert all(embed(embedder, TEXTS))


def test_a_rejected_dimensions_field_is_left_out_from_then_on(embedder: OpenAIEmbedder, endpoint: FakeEndpoint) -> None:
    endpoint.fail("unsupported_param", times=-1, params=["dimensions"])
    assert all(embed(embedder, TEXTS))
    assert all(embed(embedder, TEXTS))
    assert len(endpoint.requests) == 3
    assert "dimensions" not in endpoint.requests[-1].body


def test_unusable_proxy_settings_do_no_harm(endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "localhost,::1/128")
    near = build(endpoint.url)
    assert all(embed(near, TEXTS))
    near.close()
    build("http://models.example/v1").close()


def test_qclaw_goes_to_its_proxy_and_names_the_target(endpoint: FakeEndpoint) -> None:
    built = build("https://models.example/v1/", provider="qclaw", proxy_url=endpoint.url + "/embeddings")
    assert all(embed(built, TEXTS))
    built.close()
    assert endpoint.requests[-1].headers["remote-url"] == "https://models.example/v1/embeddings"


def test_no_text_and_no_key_reaches_the_log(
    embedder: OpenAIEmbedder, endpoint: FakeEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        endpoint.fail("unsupported_param", params=["dimensions"])
        embed(embedder, TEXTS)
    assert KEY not in caplog.text
    assert TEXTS[0] not in caplog.text


def test_zeroentropy_is_told_queries_from_documents(endpoint: FakeEndpoint) -> None:
    with closing(build(endpoint.url, provider="zeroentropy")) as built:
        stored = embed(built, TEXTS)
        asked = built.embed([TEXTS[1]], kind="query", timeout_seconds=10)
    assert closeness(stored[1], asked[0]) == pytest.approx(1.0)
    requests = endpoint.requests[-2:]
    assert [request.path for request in requests] == ["/v1/models/embed"] * 2
    assert [request.body["input_type"] for request in requests] == ["document", "query"]
    assert requests[0].body["dimensions"] == DIM


def test_settings_decide_whether_there_is_an_embedder() -> None:
    assert build_embedder(Embedding(provider="none")) is None
    assert build_embedder(settings("http://x.example/v1", enabled=False)) is None
    with pytest.raises(ConfigError, match="apiKey, baseUrl, model, dimensions"):
        build_embedder(Embedding(provider="deepseek"))
    with pytest.raises(ConfigError, match="proxyUrl"):
        build_embedder(settings("http://x.example/v1", provider="qclaw"))
