"""The seam to the extraction model: one call, typed errors."""

from __future__ import annotations

from typing import Protocol

from memory_tencentdb_worker.models import Completion, CompletionRequest


class LLM(Protocol):
    """A model that answers. Calls block; they never take longer than the request's time-out by more than a second."""

    @property
    def model(self) -> str:
        """The model's name, as the ledger and `status` show it."""
        ...

    @property
    def endpoint(self) -> str:
        """Where it is reached, without credentials."""
        ...

    def complete(self, request: CompletionRequest) -> Completion:
        """Raises LLMTransient, LLMTerminal or LLMContent (refused, filtered, empty, or no text at all)."""
        ...

    def close(self) -> None:
        """Ends the lane. Safe to call twice."""
        ...
