"""The seam to the embedder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from memory_tencentdb_worker.models import EmbeddingSpace

Vector = list[float]


class Embedder(Protocol):
    """Turns texts into unit vectors of one embedding space."""

    @property
    def space(self) -> EmbeddingSpace: ...

    def embed(
        self, texts: Sequence[str], *, kind: Literal["query", "passage"], timeout_seconds: float
    ) -> list[Vector | None]:
        """One vector a text, in order; None for a text that the endpoint refuses whatever its company.

        Raises EmbeddingTransient, EmbeddingTerminal, or EmbeddingRefused when an answer is unusable as a whole
        (wrong width, not a number). Never returns a zero vector.
        """
        ...

    def close(self) -> None: ...
