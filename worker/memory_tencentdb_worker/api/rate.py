"""How often one client may ask: a token bucket for each address."""

from __future__ import annotations

from collections import OrderedDict

PER_SECOND = 100.0
BURST = 400.0
"""Far more than agents need, far less than a loop that guesses keys would like."""

MOST_CLIENTS = 4096


class RateLimit:
    """Used on the event loop only."""

    def __init__(self, per_second: float = PER_SECOND, burst: float = BURST) -> None:
        self._per_second, self._burst = per_second, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, and when that was

    def admit(self, client: str, now: float) -> bool:
        """Whether this request of `client` is answered; `now` in seconds of a clock that only goes forward."""
        tokens, seen = self._buckets.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - seen) * self._per_second)
        admitted = tokens >= 1
        self._buckets[client] = (tokens - 1 if admitted else tokens, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return admitted
