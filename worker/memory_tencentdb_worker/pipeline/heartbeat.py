"""Keeps a job leased for as long as it runs: a call that takes longer than a lease must not be made a second time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import Lease
from memory_tencentdb_worker.store.base import Store

logger = logging.getLogger(__name__)

LEASE_MS = 5 * 60_000


@contextmanager
def kept_lease(store: Store, lease: Lease, lease_ms: int, clock: Callable[[], int]) -> Iterator[None]:
    """Extends the lease three times in its length until the block ends. One that was taken away is not fought for:
    the store refuses the result."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(lease_ms / 3000):
            try:
                if not store.heartbeat(lease, clock() + lease_ms):
                    return
            except StoreError as error:
                logger.warning("the lease of job %s could not be extended: %s", lease.job_id, error)

    thread = threading.Thread(target=beat, name="lease-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
