"""Whether an endpoint may be called now. One that will not get better by itself is left alone but for rare probes, so
that a wrong key or an empty account costs a dozen calls an hour at most (trap B17)."""

from __future__ import annotations

import threading
from dataclasses import dataclass

FIRST_PROBE_MS = 60_000
LAST_PROBE_MS = 30 * 60_000
FIRST_RETRY_MS = 30_000
LAST_RETRY_MS = 15 * 60_000
LONGEST_RETRY_AFTER_MS = 60 * 60_000
SHORTEST_WAIT_MS = 1_000


@dataclass(frozen=True)
class Pause:
    """Why an endpoint is left alone: the error that opened the breaker, and since when."""

    code: str
    message: str
    since: int
    probe_at: int


class EndpointBreaker:
    """Closed: calls pass, though after a passing failure only when its back-off is over. Open: no calls until the probe
    time; then half-open: the next call decides. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pause: Pause | None = None
        self._probes = 0
        self._failures = 0
        self._free_at = 0
        self._told = False  # the endpoint itself named the time
        self._last_error = ""
        self._last_ok_at: int | None = None

    @property
    def pause(self) -> Pause | None:
        return self._pause

    @property
    def last_error(self) -> str:
        """Of the latest failure since the latest success; "" after a success."""
        return self._last_error

    @property
    def last_ok_at(self) -> int | None:
        return self._last_ok_at

    @property
    def free_at(self) -> int:
        """The earliest time of the next call."""
        return self._free_at

    def allows(self, now: int) -> bool:
        """No wait is longer than LONGEST_RETRY_AFTER_MS: one that seems to be comes from a clock that was set back."""
        return not 0 < self._free_at - now <= LONGEST_RETRY_AFTER_MS

    def state(self, now: int) -> str:
        if self._pause is None:
            return "closed"
        return "half-open" if self.allows(now) else "open"

    def ask_again(self, now: int) -> None:
        """A person wishes it: the next call may go at once and decides, as a probe that does not lengthen the waits.
        A time that the endpoint itself named is kept."""
        with self._lock:
            if self.allows(now) or self._told:
                return
            self._free_at = now
            self._probes, self._failures = max(0, self._probes - 1), max(0, self._failures - 1)

    def succeeded(self, now: int, note: str = "") -> None:
        """`note`: what was wrong with a part of the answer although the endpoint works."""
        with self._lock:
            self._pause, self._probes, self._failures, self._free_at, self._told = None, 0, 0, 0, False
            self._last_error, self._last_ok_at = note, now

    def failed(self, now: int, error: str, retry_after_seconds: float | None = None) -> int:
        """A passing failure. Returns the time of the next call: what the endpoint said, else a growing back-off."""
        with self._lock:
            self._failures += 1
            wait = _back_off(FIRST_RETRY_MS, LAST_RETRY_MS, self._failures)
            if retry_after_seconds is not None:
                wait = min(max(round(retry_after_seconds * 1000), SHORTEST_WAIT_MS), LONGEST_RETRY_AFTER_MS)
            self._free_at, self._last_error, self._told = now + wait, error, retry_after_seconds is not None
            return self._free_at

    def opened(self, now: int, code: str, message: str) -> int:
        """A failure that time does not cure. Returns the time of the next probe."""
        with self._lock:
            self._probes += 1
            self._free_at, self._told = now + _back_off(FIRST_PROBE_MS, LAST_PROBE_MS, self._probes), False
            since = self._pause.since if self._pause else now
            self._pause, self._last_error = Pause(code, message, since, self._free_at), message
            return self._free_at


def _back_off(first_ms: int, last_ms: int, times: int) -> int:
    return min(last_ms, first_ms << min(times - 1, 20))
