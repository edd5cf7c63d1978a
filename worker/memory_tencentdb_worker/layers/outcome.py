"""How one run of a layer ended. The layer has already told the store (applied or parked); the loop does the rest."""

from __future__ import annotations

from dataclasses import dataclass

from memory_tencentdb_worker.errors import LLMError, LLMTransient


@dataclass(frozen=True)
class Done:
    """Applied and finished. `refused` counts what the model said and code did not accept, such as unsupported lines."""

    changed: int = 0
    refused: int = 0


@dataclass(frozen=True)
class Retry:
    """Nothing was written; the lease is still held. `after_seconds` when the endpoint named a time."""

    error: str
    after_seconds: float | None = None


@dataclass(frozen=True)
class Parked:
    """The input was set aside with its reason; it does not block what comes after it."""

    reason: str


@dataclass(frozen=True)
class Paused:
    """The endpoint will not get better by itself; the lease is still held."""

    code: str
    message: str


Outcome = Done | Retry | Parked | Paused


def outcome_of(error: LLMError) -> Retry | Paused:
    """For a call that brought no answer at all."""
    if isinstance(error, LLMTransient):
        return Retry(str(error), error.retry_after_seconds)
    return Paused(error.code, str(error))
