"""The vectors of one embedding space in memory: one bit a dimension, by layer and scope.

A cache of what the vector tables hold. It says which rows are worth comparing exactly; the table, which has a byte a
dimension, says how near they are. Bits are taken from the vector minus the mean of its scope: models put all texts
into a narrow cone, where uncentred signs tell nothing (recall@10 0.52 instead of 0.96 with e5-small, packages.md 2b).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]
Floats = NDArray[np.float32]
Seqs = NDArray[np.int64]
Stored = Iterator[Sequence[tuple[int, bytes]]]

SCOPES_KEPT = 256
"""The scopes that were asked last; another one is read again when it is asked."""

GROWTH_BEFORE_RELOAD = 2
"""A scope that has grown by this factor since its mean was taken is read again, so that the mean is its own."""

FEWEST_BEFORE_RELOAD = 1_000

ROWS_FOR_ONE = 300
"""The more rows there are, the more stand as near as the nearest by their bits: of a million, made up in topics, 400
hold 45 of 100 true neighbours and 3,200 hold 98; of a hundred thousand 400 hold 98."""

PRIOR_ROWS = 20
"""So many rows weigh as much as what is known of the model (`EmbeddingSpace.unrelated`) when the usual likeness of a
scope's rows to a query is estimated: the mean of three rows says little."""

_BYTE = 127
_PIECE = 32_768
_WORD_BITS = 64


def pack(vector: Sequence[float]) -> bytes:
    """A byte a dimension, scaled to the largest one: the angle to the original is below one part in a hundred."""
    values = np.asarray(vector, dtype=np.float32)
    scaled: NDArray[np.int8] = np.rint(values * (_BYTE / np.abs(values).max())).astype(np.int8)
    return scaled.tobytes()


def unpack(stored: Sequence[bytes]) -> Floats:
    """One unit vector a row."""
    whole: Floats = np.frombuffer(b"".join(stored), dtype=np.int8).reshape(len(stored), -1).astype(np.float32)
    whole /= np.linalg.norm(whole, axis=1, keepdims=True)
    return whole


class VectorIndex:
    """Thread-safe. `load` reads the rows of a scope. Its snapshot must not be older than the call: a row that is added
    while a scope is read waits for the end of the reading, an earlier one must be found by it."""

    def __init__(self, dimensions: int, unrelated: float) -> None:
        self.dimensions, self._unrelated = dimensions, unrelated
        self._lock = threading.Lock()  # also held while a scope is read: what is added meanwhile comes after it
        self._parts: OrderedDict[tuple[str, str], _Part] = OrderedDict()

    def candidates(
        self,
        layer: str,
        scope: str,
        vector: Sequence[float],
        most: int,
        load: Callable[[], Stored],
        allowed: Callable[[], Sequence[int]] | None,
    ) -> tuple[list[int], float]:
        """Rows of the scope that may be the nearest, of those allowed: up to `most`, or more in a large scope. And the
        cosine that the scope's rows usually have with this vector. It may name rows that are gone."""
        asked = np.asarray(vector, dtype=np.float32)
        asked /= np.linalg.norm(asked)
        with self._lock:
            part = self._part(layer, scope, load)
            return part.nearest(asked, most, allowed), part.usual_cosine(asked, self._unrelated)

    def add(self, layer: str, scope: str, rows: Sequence[tuple[int, Sequence[float]]]) -> None:
        """Rows that were just written; a scope that is not in memory finds them in the table."""
        with self._lock:
            part = self._parts.get((layer, scope))
            if part is not None:
                part.add([seq for seq, _ in rows], unpack([pack(vector) for _, vector in rows]))

    def remove(self, layer: str, scope: str, gone: Sequence[int]) -> None:
        with self._lock:
            part = self._parts.get((layer, scope))
            if part is not None:
                part.remove(gone)

    def _part(self, layer: str, scope: str, load: Callable[[], Stored]) -> _Part:
        part = self._parts.pop((layer, scope), None)
        if part is None or part.outgrown:
            part = _Part(load())
        self._parts[layer, scope] = part
        if len(self._parts) > SCOPES_KEPT:
            self._parts.popitem(last=False)
        return part


class _Part:
    """The rows of one scope."""

    def __init__(self, stored: Stored) -> None:
        self._seqs: Seqs = np.empty(0, dtype=np.int64)
        self._bits: Bits = np.empty((0, 0), dtype=np.uint64)  # a row for each word: read that way they cost a fifth
        self._centre: Floats | None = None
        self._sum, self._summed = np.zeros(0, dtype=np.float32), 0
        chunks = [self._signed([seq for seq, _ in rows], unpack([vector for _, vector in rows])) for rows in stored]
        if chunks:
            self._seqs = np.concatenate([seqs for seqs, _ in chunks])
            self._bits = np.concatenate([bits for _, bits in chunks], axis=1)
        self._reload_at = max(len(self._seqs) * GROWTH_BEFORE_RELOAD, FEWEST_BEFORE_RELOAD)

    @property
    def outgrown(self) -> bool:
        return len(self._seqs) > self._reload_at

    def add(self, seqs: Sequence[int], vectors: Floats) -> None:
        self.remove(seqs)
        added, bits = self._signed(seqs, vectors)
        self._seqs = np.concatenate([self._seqs, added])
        self._bits = np.concatenate([self._bits, bits], axis=1) if self._bits.size else bits

    def _signed(self, seqs: Sequence[int], vectors: Floats) -> tuple[Seqs, Bits]:
        """The first rows are centre enough for all."""
        if self._centre is None:
            self._centre = vectors.mean(axis=0) if len(seqs) > 1 else np.zeros(vectors.shape[1], dtype=np.float32)
            self._sum = np.zeros(vectors.shape[1], dtype=np.float32)
        self._sum += vectors.sum(axis=0)
        self._summed += len(seqs)
        return np.asarray(seqs, dtype=np.int64), _signs(vectors - self._centre)

    def remove(self, seqs: Sequence[int]) -> None:
        gone = _among(self._seqs, seqs)
        if gone.any():
            self._seqs, self._bits = self._seqs[~gone], self._bits[:, ~gone]

    def nearest(self, asked: Floats, most: int, allowed: Callable[[], Sequence[int]] | None) -> list[int]:
        seqs, bits = self._seqs, self._bits
        if allowed is not None and len(seqs):
            places = np.flatnonzero(_among(seqs, allowed()))
            seqs, bits = seqs[places], bits[:, places]
        most = max(most, len(seqs) // ROWS_FOR_ONE)
        if len(seqs) > most:
            assert self._centre is not None
            seqs = seqs[_smallest(_differing(bits, _signs((asked - self._centre)[np.newaxis])), most)]
        found: list[int] = seqs.tolist()
        return found

    def usual_cosine(self, asked: Floats, unrelated: float) -> float:
        seen = float(self._sum @ asked) if self._summed else 0.0
        return (seen + PRIOR_ROWS * unrelated) / (self._summed + PRIOR_ROWS)


def _among(seqs: Seqs, some: Sequence[int]) -> NDArray[np.bool_]:
    """Which are among these: a table of all numbers, which are dense, is twenty times faster than `np.isin`."""
    listed = np.asarray(some, dtype=np.int64)
    marks = np.zeros(max(seqs.max(initial=0), listed.max(initial=0)) + 1, dtype=np.bool_)
    marks[listed] = True
    found: NDArray[np.bool_] = marks[seqs]
    return found


def _signs(vectors: Floats) -> Bits:
    """A column for each vector. Padded to whole words; the padding is equal in all."""
    octets = np.packbits(vectors > 0, axis=1)
    missing = -octets.shape[1] % (_WORD_BITS // 8)
    return np.ascontiguousarray(np.pad(octets, ((0, 0), (0, missing))).view(np.uint64).T)


def _differing(bits: Bits, asked: Bits) -> NDArray[np.uint16]:
    """In how many bits each column differs. In pieces that stay in the processor's cache."""
    total = np.zeros(bits.shape[1], dtype=np.uint16)
    for begin in range(0, len(total), _PIECE):
        part = total[begin : begin + _PIECE]
        for word, of_query in zip(bits, asked, strict=True):
            part += np.bitwise_count(word[begin : begin + _PIECE] ^ of_query)
    return total


def _smallest(numbers: NDArray[np.uint16], most: int) -> NDArray[np.intp]:
    """Where the smallest ones stand; counting is faster than sorting them."""
    last = int(np.searchsorted(np.cumsum(np.bincount(numbers)), most))
    below = np.flatnonzero(numbers < last)
    return np.concatenate([below, np.flatnonzero(numbers == last)[: most - len(below)]])
