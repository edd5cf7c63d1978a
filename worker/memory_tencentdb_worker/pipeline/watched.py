"""Model and embedder as the jobs see them: every call tells the endpoint's breaker how it went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from memory_tencentdb import faults
from memory_tencentdb_worker.embedding.base import Embedder, Vector
from memory_tencentdb_worker.errors import (
    EmbeddingError,
    EmbeddingRefused,
    EmbeddingTerminal,
    EmbeddingTransient,
    LLMContent,
    LLMTerminal,
    LLMTransient,
)
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import Completion, CompletionRequest, EmbeddingSpace
from memory_tencentdb_worker.pipeline.breaker import EndpointBreaker

REFUSED = "refused by the embedder"


class WatchedLLM:
    """Whoever leases a job has asked the breaker; the calls of one job do not ask again."""

    def __init__(self, llm: LLM, breaker: EndpointBreaker, clock: Callable[[], int]) -> None:
        self._llm, self._breaker, self._clock = llm, breaker, clock

    @property
    def model(self) -> str:
        return self._llm.model

    @property
    def endpoint(self) -> str:
        return self._llm.endpoint

    def complete(self, request: CompletionRequest) -> Completion:
        faults.reach("model.before_call")
        try:
            completion = self._llm.complete(request)
        except LLMTransient as error:
            self._breaker.failed(self._clock(), str(error), error.retry_after_seconds)
            raise
        except LLMTerminal as error:
            self._breaker.opened(self._clock(), error.code, str(error))
            raise
        except LLMContent as error:
            self._breaker.succeeded(self._clock(), str(error))  # it works; this one answer is no use
            raise
        faults.reach("model.answered")
        self._breaker.succeeded(self._clock())
        return completion

    def close(self) -> None:
        self._llm.close()


class WatchedEmbedder:
    """Asks the breaker before every call, because layers call it too while embedding itself waits: an endpoint that is
    left alone costs them nothing (trap B82)."""

    def __init__(self, embedder: Embedder, breaker: EndpointBreaker, clock: Callable[[], int]) -> None:
        self._embedder, self._breaker, self._clock = embedder, breaker, clock

    @property
    def space(self) -> EmbeddingSpace:
        return self._embedder.space

    def embed(
        self, texts: Sequence[str], *, kind: Literal["query", "passage"], timeout_seconds: float
    ) -> list[Vector | None]:
        if not self._breaker.allows(self._clock()):
            raise EmbeddingTransient(f"the embedder is left alone for now: {self._breaker.last_error}")
        try:
            vectors = self._embedder.embed(texts, kind=kind, timeout_seconds=timeout_seconds)
        except EmbeddingError as error:
            self._note(error)
            raise
        refused = sum(vector is None for vector in vectors)
        note = f"{refused} of {len(texts)} texts were {REFUSED}" if refused else ""
        self._breaker.succeeded(self._clock(), note)
        return vectors

    def close(self) -> None:
        self._embedder.close()

    def _note(self, error: EmbeddingError) -> None:
        """An answer that cannot be used at all (a wrong width) is a matter of settings: it counts like a wrong key."""
        if isinstance(error, EmbeddingTerminal | EmbeddingRefused):
            self._breaker.opened(self._clock(), error.code, str(error))
        else:
            after = error.retry_after_seconds if isinstance(error, EmbeddingTransient) else None
            self._breaker.failed(self._clock(), str(error), after)
