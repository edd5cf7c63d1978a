"""The facade over store, recall, layers and pipeline: the only thing that the HTTP routes call."""

from memory_tencentdb_worker.service.facade import MemoryService
from memory_tencentdb_worker.service.facts import WorkerFacts

__all__ = ["MemoryService", "WorkerFacts"]
