"""The Hermes memory provider of memory_tencentdb. The host calls `register`; everything else is in the modules."""

from __future__ import annotations

from typing import Any

from .protocol import VERSION

__version__ = VERSION
__all__ = ["__version__", "register"]


def register(ctx: Any) -> None:
    """Hands one provider to the host; a context without `register_memory_provider` is left alone."""
    if not hasattr(ctx, "register_memory_provider"):
        return
    from .provider import TencentDBMemoryProvider

    ctx.register_memory_provider(TencentDBMemoryProvider())
