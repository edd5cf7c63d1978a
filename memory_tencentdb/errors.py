"""What can go wrong between the provider and its worker."""

from __future__ import annotations


class ProviderError(Exception):
    """Base of the provider's own errors."""


class WorkerUnreachable(ProviderError):
    """Nothing (that we may trust) answers on the socket in time. Counts for the breaker."""


class WorkerSilent(WorkerUnreachable):
    """The worker takes the connection but does not answer in time: it is frozen or overloaded, not gone."""


class WorkerStranger(WorkerUnreachable):
    """Something answers, but it does not serve this data directory or is not ours."""


class WorkerTrouble(ProviderError):
    """The worker answered with a 5xx or 429. Counts for the breaker; `retry_after_seconds` when it said so."""

    def __init__(self, status: int, code: str, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.message = status, code, message
        self.retry_after_seconds = retry_after_seconds


class RequestRefused(ProviderError):
    """The worker answered with a 4xx: the request is wrong, the worker is fine. Does not count for the breaker."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.message = status, code, message


class SpawnFailed(WorkerUnreachable):
    """The worker could not be started. `exit_code` 3 means a configuration or schema error: do not try again."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class OutboxFull(ProviderError):
    """The outbox has reached its bound; the turn could not be kept."""
