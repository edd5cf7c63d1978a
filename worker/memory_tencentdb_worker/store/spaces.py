"""The embedding spaces that a store has open: the one in use, and a former one that answers until that is whole."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import EmbeddingSpace

if TYPE_CHECKING:
    from memory_tencentdb_worker.store.vector_index import VectorIndex


class OpenSpace:
    """A space, its number in the store, and its vectors in memory. The latter, and numpy with them, are loaded when
    they are first asked for."""

    def __init__(self, identity: EmbeddingSpace, number: int) -> None:
        self.identity, self.number = identity, number
        self._lock = threading.Lock()
        self._index: VectorIndex | None = None

    @property
    def index(self) -> VectorIndex:
        """Raises StoreError when numpy cannot be loaded."""
        with self._lock:
            if self._index is None:
                self._index = _new_index(self.identity)
            return self._index


def _new_index(space: EmbeddingSpace) -> VectorIndex:
    try:
        from memory_tencentdb_worker.store.vector_index import VectorIndex
    except ImportError as error:
        raise StoreError(f"vectors cannot be used: {error}", code="vectors_unavailable") from error
    return VectorIndex(space.dimensions, space.unrelated)
