"""The vectors in memory: whom they name as near, and that they follow what is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from memory_tencentdb_worker.store.vector_index import Floats, VectorIndex, pack, unpack

WIDTH = 96


def cone(count: int, seed: int) -> Floats:
    """Vectors as small models make them: all in one narrow direction, random pairs with a cosine above 0.8."""
    random = np.random.default_rng(seed)
    topics = np.random.default_rng(1).standard_normal((60, WIDTH))
    vectors = topics[random.integers(0, 60, count)] + 0.6 * random.standard_normal((count, WIDTH)) + 2.6
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def index_of(vectors: Floats) -> VectorIndex:
    index = VectorIndex(WIDTH, 0.0)
    candidates(index, vectors[0], vectors)
    return index


def stored(vectors: Floats) -> Iterator[list[tuple[int, bytes]]]:
    yield [(seq, pack(vector.tolist())) for seq, vector in enumerate(vectors)]


def candidates(
    index: VectorIndex, asked: Floats, vectors: Floats, most: int = 200, only: range | None = None
) -> set[int]:
    found, _ = index.candidates(
        "L0", "", asked.tolist(), most, lambda: stored(vectors), None if only is None else lambda: list(only)
    )
    return set(found)


def test_the_true_neighbours_are_among_the_candidates_even_in_a_narrow_cone() -> None:
    vectors = cone(3_000, seed=2)
    index = index_of(vectors)
    kept = 0
    for asked in cone(20, seed=3):
        nearest = np.argsort(-(vectors @ asked))[:10]
        kept += len(candidates(index, asked, vectors) & set(nearest.tolist()))
    assert kept / 200 > 0.9


def test_a_filter_comes_before_the_ranking() -> None:
    vectors = cone(2_000, seed=4)
    index = index_of(vectors)
    assert candidates(index, vectors[0], vectors, most=50, only=range(1_900, 2_000)) <= set(range(1_900, 2_000))
    assert candidates(index, vectors[0], vectors, most=50, only=range(1_990, 2_000)) == set(range(1_990, 2_000))


def test_rows_written_and_removed_later_are_followed() -> None:
    vectors = cone(300, seed=5)
    index = index_of(vectors)
    index.add("L0", "", [(900, vectors[7].tolist()), (7, vectors[8].tolist())])
    assert candidates(index, vectors[7], vectors, most=1) == {900}
    index.remove("L0", "", [900])
    assert 900 not in candidates(index, vectors[7], vectors, most=400)
    assert len(candidates(index, vectors[7], vectors, most=400)) == 300


def test_a_row_written_while_its_scope_is_read_is_not_lost() -> None:
    vectors = cone(10, seed=6)
    index, reading, written = VectorIndex(WIDTH, 0.0), threading.Event(), threading.Event()

    def slowly() -> Iterator[list[tuple[int, bytes]]]:
        reading.set()
        written.wait(0.2)  # the writer waits for the reader: this runs out
        yield from stored(vectors)

    def write() -> None:
        reading.wait(5)
        index.add("L0", "", [(99, vectors[0].tolist())])
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    index.candidates("L0", "", vectors[0].tolist(), 400, slowly, None)
    writer.join()
    assert 99 in candidates(index, vectors[0], vectors, most=400)


def test_a_byte_a_dimension_keeps_the_direction() -> None:
    vectors = cone(50, seed=7)
    kept = unpack([pack(vector.tolist()) for vector in vectors])
    assert (kept * vectors).sum(axis=1) == pytest.approx(np.ones(50), abs=1e-3)
