"""What stands around every hook: no error reaches the host, and what is logged of it holds no secret."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


def boundary(fallback: T) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A hook never raises: the host would drop the provider, or the turn. What it swallows is logged once per kind."""

    def wrap(hook: Callable[P, T]) -> Callable[P, T]:
        seen: set[str] = set()

        @functools.wraps(hook)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return hook(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the host must not see it; logged with its trace
                level = logging.DEBUG if type(error).__name__ in seen else logging.WARNING
                seen.add(type(error).__name__)
                logger.log(level, "memory_tencentdb: %s failed: %s", hook.__name__, _shown_trace())
                return fallback

        return guarded

    return wrap


def _shown_trace() -> str:
    """The traceback of the error at hand; what it quotes of a conversation may hold a secret."""
    import traceback

    from .redaction import hide_secrets

    return hide_secrets(traceback.format_exc())
