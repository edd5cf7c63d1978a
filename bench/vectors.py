"""Search by vectors: processor time of a search, time to read a store's vectors in, memory, disk, and how many of the
true neighbours are found. The vectors are made up: topics in a narrow cone, as small models make them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from bench.report import publish
from memory_tencentdb_worker.models import Due, EmbeddingSpace, Filter, NewMessage, NewTurn, Origin, Role, SessionState
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store

NOW = 1_800_000_000_000
TURN_MESSAGES = 100  # the tables of words are not measured here
SEARCHES = 60
NEIGHBOURS = 10
COMPARED = 200

Vectors = NDArray[np.float32]


def made_up(count: int, dimensions: int, seed: int, topic_count: int = 200) -> Vectors:
    topics = np.random.default_rng(0).standard_normal((topic_count, dimensions), dtype=np.float32)
    random = np.random.default_rng(seed)
    vectors = topics[random.integers(0, topic_count, count)] + np.float32(2)
    vectors += np.float32(0.7) * random.standard_normal((count, dimensions), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _nothing_due(state: SessionState) -> Sequence[Due]:
    return ()


def fill(store: SqliteStore, vectors: Vectors, dimensions: int) -> None:
    for turn in range(0, len(vectors), TURN_MESSAGES):
        messages = tuple(
            NewMessage(Role.USER, f"m{number}", NOW, Origin.USER)
            for number in range(turn, min(turn + TURN_MESSAGES, len(vectors)))
        )
        store.add_turn(
            NewTurn("", f"t{turn}", f"s{turn // TURN_MESSAGES % 500}", "", messages, NOW, "bench"), _nothing_due, NOW
        )
    store.use_space(EmbeddingSpace("bench", "made-up", dimensions))
    while texts := store.texts_to_embed(2_000):
        store.put_vectors([(text, vectors[int(text.text[1:])].tolist()) for text in texts], "", NOW)


def search_ms(store: SqliteStore, filter: Filter, dimensions: int) -> list[float]:
    spent = []
    for asked in made_up(SEARCHES, dimensions, seed=2):
        vector = asked.tolist()
        before = time.thread_time()
        store.nearest_messages(vector, filter, 20)
        spent.append((time.thread_time() - before) * 1000)
    return sorted(spent)


def found_share(store: SqliteStore, vectors: Vectors, dimensions: int) -> float:
    found = 0
    for asked in made_up(SEARCHES, dimensions, seed=3):
        nearest = {f"m{number}" for number in np.argsort(-(vectors @ asked))[:NEIGHBOURS]}
        hits = store.nearest_messages(asked.tolist(), Filter(""), COMPARED)
        own = sorted(hits, key=lambda hit: -hit.score)[:NEIGHBOURS]  # the order counts what stands beside a message
        found += len(nearest & {hit.message.text for hit in own})
    return found / (SEARCHES * NEIGHBOURS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=384)
    options = parser.parse_args()
    vectors = made_up(options.rows, options.dimensions, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "data", NOW)
        fill(store, vectors, options.dimensions)
        store.close()
        store = open_store(Path(folder) / "data", NOW)
        store.use_space(EmbeddingSpace("bench", "made-up", options.dimensions))
        before, started = psutil.Process().memory_info().rss, time.perf_counter()
        store.nearest_messages(vectors[0].tolist(), Filter(""), 1)
        read_in = time.perf_counter() - started
        grown = psutil.Process().memory_info().rss - before
        whole = search_ms(store, Filter(""), options.dimensions)
        session = search_ms(store, Filter("", session_key="s0"), options.dimensions)
        share = found_share(store, vectors, options.dimensions)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        store.close()
    figures = {
        "rows": options.rows,
        "dimensions": options.dimensions,
        "search_cpu_ms": round(statistics.median(whole), 2),
        "search_cpu_ms_p95": round(whole[int(0.95 * SEARCHES)], 2),
        "session_cpu_ms": round(statistics.median(session), 2),
        "recall_at_10": round(share, 3),
        "read_in_seconds": round(read_in, 2),
        "memory_mb": round(grown / 1e6, 1),
        "disk_mb": round(size / 1e6, 1),
    }
    publish("vectors", [(name, str(value)) for name, value in figures.items()], figures)


if __name__ == "__main__":
    main()
