"""Stops asking a worker that keeps failing, and lets one request through now and then to see whether it is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FAILURES = 5
OPEN_SECONDS = 60.0


class Breaker:
    """Closed until `failures` in a row; then open for `open_seconds`; then half-open: one probe at a time.

    Only failures of the worker are to be reported here, never refusals of a single request (trap B18).
    """

    def __init__(
        self,
        failures: int = FAILURES,
        open_seconds: float = OPEN_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit, self._open_seconds, self._clock = failures, open_seconds, clock
        self._lock = threading.Lock()
        self._failures = 0
        self._opened_at: float | None = None
        self._probed_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests are held back now. Never takes the probe."""
        with self._lock:
            return self._opened_at is not None and self._clock() - self._opened_at < self._open_seconds

    def allow(self) -> bool:
        """Whether a request may go out. After the pause the first caller gets the probe, the others wait for its end;
        a probe that never reports back frees its place after another pause."""
        with self._lock:
            if self._opened_at is None:
                return True
            now = self._clock()
            if now - self._opened_at < self._open_seconds:
                return False
            if self._probed_at is not None and now - self._probed_at < self._open_seconds:
                return False
            self._probed_at = now
            return True

    def succeed(self) -> None:
        with self._lock:
            self._failures, self._opened_at, self._probed_at = 0, None, None

    def fail(self) -> None:
        with self._lock:
            self._failures += 1
            if self._failures >= self._limit:
                self._opened_at, self._probed_at = self._clock(), None
