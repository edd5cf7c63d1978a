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

PRIOR_ROWS = 20
"""So many rows weigh as much as what is known of the model (`EmbeddingSpace.unrelated`) when the usual likeness of a
scope's rows to a query is estimated: the mean of three rows says little."""

_BYTE = 127
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
        """Up to `most` rows of the scope that may be the nearest, of those allowed, and the cosine that the scope's
        rows usually have with this vector. It may name rows that are gone."""
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
        self._bits: Bits = np.empty((0, 0), dtype=np.uint64)
        self._centre: Floats | None = None
        self._sum, self._summed = np.zeros(0, dtype=np.float32), 0
        for rows in stored:  # the first chunk is centre enough for all
            self.add([seq for seq, _ in rows], unpack([vector for _, vector in rows]))
        self._reload_at = max(len(self._seqs) * GROWTH_BEFORE_RELOAD, FEWEST_BEFORE_RELOAD)

    @property
    def outgrown(self) -> bool:
        return len(self._seqs) > self._reload_at

    def add(self, seqs: Sequence[int], vectors: Floats) -> None:
        if self._centre is None:
            self._centre = vectors.mean(axis=0) if len(seqs) > 1 else np.zeros(vectors.shape[1], dtype=np.float32)
            self._sum = np.zeros(vectors.shape[1], dtype=np.float32)
            self._bits = np.empty((0, -(-vectors.shape[1] // _WORD_BITS)), dtype=np.uint64)
        self.remove(seqs)
        self._seqs = np.concatenate([self._seqs, np.asarray(seqs, dtype=np.int64)])
        self._bits = np.concatenate([self._bits, _signs(vectors - self._centre)])
        self._sum += vectors.sum(axis=0)
        self._summed += len(seqs)

    def remove(self, seqs: Sequence[int]) -> None:
        kept = ~np.isin(self._seqs, seqs)
        if not kept.all():
            self._seqs, self._bits = self._seqs[kept], self._bits[kept]

    def nearest(self, asked: Floats, most: int, allowed: Callable[[], Sequence[int]] | None) -> list[int]:
        seqs, bits = self._seqs, self._bits
        if allowed is not None and len(seqs):
            places = np.flatnonzero(np.isin(seqs, np.asarray(allowed(), dtype=np.int64)))
            seqs, bits = seqs[places], bits[places]
        if len(seqs) > most:
            assert self._centre is not None
            differing = np.bitwise_count(bits ^ _signs((asked - self._centre)[np.newaxis])).sum(axis=1, dtype=np.uint16)
            seqs = seqs[np.argpartition(differing, most)[:most]]
        return [int(seq) for seq in seqs]

    def usual_cosine(self, asked: Floats, unrelated: float) -> float:
        seen = float(self._sum @ asked) if self._summed else 0.0
        return (seen + PRIOR_ROWS * unrelated) / (self._summed + PRIOR_ROWS)


def _signs(vectors: Floats) -> Bits:
    """Padded to whole words; the padding is equal in every row."""
    octets = np.packbits(vectors > 0, axis=1)
    missing = -octets.shape[1] % (_WORD_BITS // 8)
    return np.pad(octets, ((0, 0), (0, missing))).view(np.uint64)
