"""The worker of memory_tencentdb: one process per data directory that owns the whole pipeline and all storage."""

from memory_tencentdb import protocol

__version__ = protocol.VERSION
