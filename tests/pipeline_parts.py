"""A pipeline over a real store, with a model reached over real HTTP and a clock that is moved by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Literal

import httpx

from layer_parts import START
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.embedding.base import Embedder, Vector
from memory_tencentdb_worker.endpoints import judge_failure, retry_after_seconds
from memory_tencentdb_worker.errors import EmbeddingError, LLMContent, LLMError, LLMTerminal, LLMTransient
from memory_tencentdb_worker.layers.parts import Parts
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import Completion, CompletionRequest, EmbeddingSpace
from memory_tencentdb_worker.pipeline.embedding_jobs import EmbeddingJobs
from memory_tencentdb_worker.pipeline.ledger import LedgerLLM
from memory_tencentdb_worker.pipeline.loop import Pipeline
from memory_tencentdb_worker.pipeline.model_jobs import ModelJobs
from memory_tencentdb_worker.store.projections import Projector
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store

PATIENCE_SECONDS = 10.0


class Clock:
    """Milliseconds; moved by hand."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class HttpLLM:
    """The OpenAI protocol with the least that is needed; the product's own client is the lane."""

    model = "fake-model"

    def __init__(self, url: str) -> None:
        self.endpoint = url
        self._client = httpx.Client(trust_env=False)

    def complete(self, request: CompletionRequest) -> Completion:
        messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.user}]
        body = {"model": self.model, "messages": messages, "response_format": {"type": "json_object"}}
        try:
            answer = self._client.post(f"{self.endpoint}/chat/completions", json=body, timeout=request.timeout_seconds)
        except (httpx.HTTPError, RuntimeError) as error:  # the latter: closed during the call
            raise LLMTransient(str(error)) from error
        if answer.status_code != 200:
            raise _failure(answer)
        choice = answer.json()["choices"][0]
        return Completion(choice["message"]["content"] or "", choice["finish_reason"], self.model, 10, 5, 0.001, 3)

    def close(self) -> None:
        self._client.close()


def _failure(answer: httpx.Response) -> LLMError:
    verdict = judge_failure(answer.status_code, answer.text)
    if verdict.kind == "transient":
        after = retry_after_seconds(answer.headers, 0)
        return LLMTransient(f"{answer.status_code}", retry_after_seconds=after, code=verdict.code)
    kind = LLMTerminal if verdict.kind == "terminal" else LLMContent
    return kind(f"{answer.status_code}", code=verdict.code)


@dataclass
class LetterEmbedder:
    """Counts letters; fails or refuses on demand."""

    space: EmbeddingSpace = field(default_factory=lambda: EmbeddingSpace("fake", "letters", 26))
    trouble: EmbeddingError | None = None
    refuses: str = "\x00"
    calls: int = 0
    texts: list[str] = field(default_factory=list)

    def embed(
        self, texts: list[str], *, kind: Literal["query", "passage"], timeout_seconds: float
    ) -> list[Vector | None]:
        self.calls += 1
        if self.trouble:
            raise self.trouble
        self.texts += texts
        return [None if self.refuses in text else _letters(text) for text in texts]

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class Running:
    store: SqliteStore
    pipeline: Pipeline
    clock: Clock
    data_dir: Path

    def flush(self) -> None:
        self.store.make_due(self.clock(), expedite=True)
        self.pipeline.wake()
        wait_for(self.store.idle, "the pipeline to be idle")

    def pass_time(self, seconds: float) -> None:
        self.clock.now += round(seconds * 1000)
        self.pipeline.wake()


@contextmanager
def running_pipeline(
    data_dir: Path, *, url: str = "", config: Config | None = None, clock: Clock | None = None, files: bool = False
) -> Iterator[Running]:
    clock = clock or Clock()
    store = open_store(data_dir, clock())
    projector = Projector(store, data_dir, UTC, clock=clock) if files else None
    pipeline = Pipeline(store, config or Config(), UTC, clock, projector)
    llm = LedgerLLM(HttpLLM(url), store, clock) if url else None
    pipeline.use_llm(llm)
    pipeline.start()
    try:
        yield Running(store, pipeline, clock, data_dir)
    finally:
        pipeline.stop(5)
        if llm:
            llm.close()
        store.close()


@dataclass
class Stepped:
    """The pipeline's jobs without its threads: a test makes the steps and moves the clock, so that an hour of trouble
    is over in a second."""

    store: SqliteStore
    model: ModelJobs
    embedding: EmbeddingJobs
    clock: Clock

    def run(self) -> int:
        """Does everything that is due and allowed now. Returns how many jobs that were."""
        jobs = 0
        while self.model.run_due() or self.embedding.run_due():
            jobs += 1
            assert jobs < 10_000, "the jobs do not come to an end"
        return jobs


@contextmanager
def stepped(data_dir: Path, llm: LLM | None, *, embedder: Embedder | None = None) -> Iterator[Stepped]:
    clock, config = Clock(), Config()
    store = open_store(data_dir, clock())
    if embedder:
        store.use_space(embedder.space)
    embedding = EmbeddingJobs(store, config.memory.embedding, clock, "index")
    embedding.use(embedder)
    parts = Parts(store, llm, embedding.embedder, config, UTC)
    model = ModelJobs(store, parts, clock, owner="model", stopping=threading.Event())
    try:
        yield Stepped(store, model, embedding, clock)
    finally:
        if llm:
            llm.close()
        store.close()


def wait_for(condition: Callable[[], object], what: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.01)


def _letters(text: str) -> Vector:
    counts = [float(text.lower().count(chr(ord("a") + index))) for index in range(26)]
    counts[0] += 0.01
    length = sum(count * count for count in counts) ** 0.5
    return [count / length for count in counts]
