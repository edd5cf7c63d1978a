"""Vectors for texts that lack one, in batches. An embedder in trouble is waited for here and nowhere else: it never
costs a model call (trap B36)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from memory_tencentdb_worker.config.model import Embedding
from memory_tencentdb_worker.embedding.base import Embedder
from memory_tencentdb_worker.errors import EmbeddingError, EmbeddingRefused, EmbeddingTerminal, EmbeddingTransient
from memory_tencentdb_worker.models import Due, JobKind, Lease
from memory_tencentdb_worker.pipeline.breaker import EndpointBreaker
from memory_tencentdb_worker.store.base import Store

logger = logging.getLogger(__name__)

KINDS = (JobKind.EMBED,)
BATCH_TEXTS = 64
LEASE_MS = 5 * 60_000
REFUSED = "refused by the embedder"


class EmbeddingJobs:
    def __init__(self, store: Store, settings: Embedding, clock: Callable[[], int], owner: str) -> None:
        self._store, self._settings, self._clock, self._owner = store, settings, clock, owner
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None
        self._breaker = EndpointBreaker()

    @property
    def breaker(self) -> EndpointBreaker:
        return self._breaker

    def use(self, embedder: Embedder | None) -> None:
        with self._lock:
            if embedder is not self._embedder:
                self._breaker = EndpointBreaker()
            self._embedder = embedder

    def run_due(self) -> bool:
        """Embeds one batch; False when nothing is due or the endpoint must be left alone. Raises StoreError."""
        with self._lock:
            embedder, breaker = self._embedder, self._breaker
        now = self._clock()
        if embedder is not None and not breaker.allows(now):
            return False
        lease = self._store.lease_job(KINDS, now, LEASE_MS, self._owner)
        if lease is None:
            return False
        if embedder is None:
            self._store.finish_job(lease, [], now)
        else:
            self._embed(lease, embedder, breaker)
        return True

    def next_at(self) -> int | None:
        due_at = self._store.next_due_at(KINDS)
        if due_at is None or self._embedder is None:
            return due_at
        return max(due_at, self._breaker.free_at)

    def _embed(self, lease: Lease, embedder: Embedder, breaker: EndpointBreaker) -> None:
        texts = self._store.texts_to_embed(BATCH_TEXTS)
        if not texts:
            self._store.finish_job(lease, [], self._clock())
            return
        timeout_seconds = (self._settings.capture_timeout_ms or self._settings.timeout_ms) / 1000
        try:
            vectors = embedder.embed([one.text for one in texts], kind="passage", timeout_seconds=timeout_seconds)
        except EmbeddingError as error:
            self._wait(lease, breaker, error)
            return
        now = self._clock()
        refused = sum(vector is None for vector in vectors)
        breaker.succeeded(now, f"{refused} of {len(texts)} texts were {REFUSED}" if refused else "")
        self._store.put_vectors(list(zip(texts, vectors, strict=True)), REFUSED, now)
        self._store.finish_job(lease, [Due(JobKind.EMBED, now)] if len(texts) == BATCH_TEXTS else [], now)

    def _wait(self, lease: Lease, breaker: EndpointBreaker, error: EmbeddingError) -> None:
        """An answer that cannot be used at all (a wrong width) is a matter of settings: it counts like a wrong key."""
        now = self._clock()
        logger.warning("embedding waits: %s", error)
        if isinstance(error, EmbeddingTerminal | EmbeddingRefused):
            at = breaker.opened(now, error.code, str(error))
        else:
            after = error.retry_after_seconds if isinstance(error, EmbeddingTransient) else None
            at = breaker.failed(now, str(error), after)
        self._store.retry_job(lease, at, str(error), now)
