"""Settings that this version reads and checks but does not act on. They are the manual's, kept so that a file written
for the original is understood; whoever looks at them is told."""

from __future__ import annotations

from memory_tencentdb_worker.config.load import LoadedConfig, with_problem

NOTE = "not used by this version"

GROUPS = ("memory.tcvdb.", "memory.offload.", "memory.bm25.", "memory.report.")

KEYS = frozenset(
    {
        "memory.capture.l0l1RetentionDays",
        "memory.capture.allowAggressiveCleanup",
        "memory.capture.cleanTime",
        "memory.pipeline.sessionActiveWindowHours",
        "memory.embedding.modelCacheDir",
    }
)


def note_of(key: str) -> str:
    """What `config show` says beside a key, "" for one that counts."""
    return NOTE if key in KEYS or key.startswith(GROUPS) else ""


def with_unused_parts(loaded: LoadedConfig) -> LoadedConfig:
    """Names the parts that somebody switched on and that are not there."""
    memory = loaded.config.memory
    if memory.store_backend != "sqlite":
        loaded = with_problem(loaded, "memory.storeBackend", "only sqlite is part of this version", "sqlite")
    if memory.offload.enabled:
        loaded = with_problem(loaded, "memory.offload.enabled", "offloading is not part of this version", False)
    return loaded
