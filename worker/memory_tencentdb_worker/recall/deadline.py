"""A caller's time limit, carried along so that every step knows what is left of it."""

from __future__ import annotations

import time
from collections.abc import Callable


class Deadline:
    """Starts when it is made. A part of the time is kept back for packing and for the way home."""

    def __init__(self, limit_ms: int, *, spent_ms: float = 0, clock: Callable[[], float] = time.monotonic) -> None:
        """`spent_ms`: what passed before, while the request stood in a queue."""
        self.limit_ms = limit_ms
        self._clock = clock
        self._started = clock() - spent_ms / 1000
        self._reserve_ms = min(50.0, limit_ms * 0.1)

    def elapsed_ms(self) -> float:
        return (self._clock() - self._started) * 1000

    def left_seconds(self) -> float:
        """Never negative."""
        return max(0.0, (self.limit_ms - self._reserve_ms - self.elapsed_ms()) / 1000)

    def until_share_seconds(self, share: float) -> float:
        """Until this part of the limit has passed; never negative."""
        return max(0.0, (self.limit_ms * share - self.elapsed_ms()) / 1000)

    def share_seconds(self, share: float) -> float:
        """A part of the whole limit, but not more than what is left."""
        return min(self.left_seconds(), self.limit_ms * share / 1000)
