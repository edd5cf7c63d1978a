"""The seam to the embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from memory_tencentdb_worker.models import EmbeddingSpace

Vector = list[float]


@dataclass(frozen=True)
class EmbeddingUse:
    """One request to an embedding endpoint, as the ledger wants to know it."""

    model: str
    texts: int
    tokens: int | None  # as the endpoint named them
    estimate: int  # as we count them
    elapsed_ms: int
    outcome: str  # "ok", or what went wrong


ReportUse = Callable[[EmbeddingUse], None]
"""Must neither wait nor raise: it is called while somebody waits for the vectors."""


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
