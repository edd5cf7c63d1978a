"""The embedding of a query within its share of the deadline, and a pause when the embedder keeps failing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from memory_tencentdb_worker.embedding.base import Embedder, Vector
from memory_tencentdb_worker.errors import EmbeddingError, EmbeddingRefused, EmbeddingTransient
from memory_tencentdb_worker.models import EmbeddingSpace
from memory_tencentdb_worker.text.speakers import without_names

FAILURES_BEFORE_PAUSE = 3
LATE = "the embedder answered after its share of the deadline"
PAUSE_SECONDS = 30.0
"""Without the pause a dead embedder would cost each turn its whole share of the deadline (trap B112)."""


class QueryEmbedder:
    """Wraps the embedder for recall. After three failures in a row it is left alone for half a minute."""

    def __init__(self, embedder: Embedder, max_input_chars: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._embedder = embedder
        self._max_input_chars = max_input_chars
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._paused_until = 0.0
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Why it fails again and again, "" since it has worked again."""
        return self._trouble

    @property
    def space(self) -> EmbeddingSpace:
        return self._embedder.space

    def paused(self) -> bool:
        with self._lock:
            return self._clock() < self._paused_until

    def embed(self, query: str, timeout_seconds: float, speakers: Iterable[str] = ()) -> Vector:
        """Names of speakers are taken out, as they were from the messages. Raises EmbeddingError."""
        started = self._clock()
        try:
            vectors = self._embedder.embed(
                [without_names(query[: self._max_input_chars], speakers)], kind="query", timeout_seconds=timeout_seconds
            )
        except EmbeddingError as error:
            self._count(str(error))
            raise
        if not vectors or vectors[0] is None:
            raise EmbeddingRefused("the embedder refused the query")
        late = self._clock() - started > timeout_seconds
        self._count(LATE if late else "")
        if late:
            raise EmbeddingTransient(LATE)
        return vectors[0]

    def _count(self, failure: str) -> None:
        """`failure` "" is a success."""
        with self._lock:
            self._failures = self._failures + 1 if failure else 0
            if not failure:
                self._trouble = ""
            if self._failures >= FAILURES_BEFORE_PAUSE:
                self._trouble = failure
                self._paused_until = self._clock() + PAUSE_SECONDS
                self._failures = 0
