"""What keyword search holds in memory between two questions. Numpy is loaded with the first one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from memory_tencentdb_worker.store.search_terms import RowCounts

if TYPE_CHECKING:
    from memory_tencentdb_worker.store.message_map import MessageMap


class SearchMemory:
    """One for each open database. Thread-safe."""

    def __init__(self) -> None:
        self.counts = RowCounts()
        self._lock = threading.Lock()
        self._messages: MessageMap | None = None

    @property
    def messages(self) -> MessageMap:
        from memory_tencentdb_worker.store.message_map import MessageMap

        with self._lock:
            if self._messages is None:
                self._messages = MessageMap()
            return self._messages
