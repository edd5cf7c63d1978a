"""Keeps the readable files equal to the store, and takes in what a person wrote into them before it writes."""

from __future__ import annotations

import logging
from collections.abc import Callable

from memory_tencentdb_worker.layers.hand_edits import apply_edits
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.projections import Projector

logger = logging.getLogger(__name__)


class Documents:
    def __init__(self, store: Store, projector: Projector, clock: Callable[[], int]) -> None:
        self._store, self._projector, self._clock = store, projector, clock

    def sync(self) -> int:
        """Returns how many edits were taken in. Raises StoreError, or OSError when files cannot be written."""
        edits = self._projector.read_edits()
        apply_edits(edits, self._store, self._clock())
        for edit in edits:
            logger.info("a hand edit of %s %s was taken in", edit.kind, edit.name)
        self._projector.refresh()
        return len(edits)
