"""Vectors for texts that lack one, in batches. An embedder in trouble is waited for here and nowhere else: it never
costs a model call (trap B36)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from memory_tencentdb import faults
from memory_tencentdb_worker.config.model import Embedding
from memory_tencentdb_worker.embedding.base import Embedder
from memory_tencentdb_worker.errors import EmbeddingError
from memory_tencentdb_worker.models import Due, JobKind, Lease
from memory_tencentdb_worker.pipeline.breaker import EndpointBreaker
from memory_tencentdb_worker.pipeline.budget import DayBudget
from memory_tencentdb_worker.pipeline.heartbeat import LEASE_MS, kept_lease
from memory_tencentdb_worker.pipeline.watched import REFUSED, WatchedEmbedder
from memory_tencentdb_worker.store.base import Store

logger = logging.getLogger(__name__)

KINDS = (JobKind.EMBED,)
BATCH_TEXTS = 32
"""The offline model needs a second or two for so many; the files wait for the same thread."""


class EmbeddingJobs:
    def __init__(
        self,
        store: Store,
        settings: Embedding,
        clock: Callable[[], int],
        owner: str,
        budget: DayBudget | None = None,
    ) -> None:
        self._store, self._settings, self._clock, self._owner = store, settings, clock, owner
        self._budget = budget
        self._lock = threading.Lock()
        self._given: Embedder | None = None
        self._embedder: WatchedEmbedder | None = None
        self._breaker = EndpointBreaker()

    @property
    def breaker(self) -> EndpointBreaker:
        return self._breaker

    @property
    def embedder(self) -> Embedder | None:
        """The one in use, behind its breaker."""
        return self._embedder

    def use(self, embedder: Embedder | None) -> None:
        """A new one begins with a closed breaker."""
        with self._lock:
            if embedder is self._given:
                return
            self._given, self._breaker = embedder, EndpointBreaker()
            self._embedder = WatchedEmbedder(embedder, self._breaker, self._clock) if embedder else None

    def run_due(self) -> bool:
        """Embeds one batch; False when nothing is due or the endpoint must be left alone. Raises StoreError."""
        with self._lock:
            embedder, breaker = self._embedder, self._breaker
        now = self._clock()
        if embedder is not None and (not breaker.allows(now) or self._used_up()):
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
        if due_at is None or self._embedder is None or self._breaker.allows(self._clock()):
            return due_at
        return max(due_at, self._breaker.free_at)

    def _used_up(self) -> bool:
        """Only an endpoint that costs something waits; questions are embedded all the same: they are few and short."""
        return self._budget is not None and self._budget.counts_embedding and self._budget.look() is not None

    def _embed(self, lease: Lease, embedder: WatchedEmbedder, breaker: EndpointBreaker) -> None:
        texts = self._store.texts_to_embed(BATCH_TEXTS)
        if not texts:
            self._store.finish_job(lease, [], self._clock())
            return
        timeout_seconds = (self._settings.capture_timeout_ms or self._settings.timeout_ms) / 1000
        try:
            with kept_lease(self._store, lease, LEASE_MS, self._clock):
                vectors = embedder.embed([one.text for one in texts], kind="passage", timeout_seconds=timeout_seconds)
        except EmbeddingError as error:
            logger.warning("embedding waits: %s", error)
            now = self._clock()
            self._store.retry_job(lease, max(now, breaker.free_at), str(error), now)
            return
        faults.reach("vectors.got")
        now = self._clock()
        self._store.put_vectors(list(zip(texts, vectors, strict=True)), REFUSED, now)
        self._store.finish_job(lease, [Due(JobKind.EMBED, now)] if len(texts) == BATCH_TEXTS else [], now)
