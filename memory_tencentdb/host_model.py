"""The host's own model, offered to the worker at the handshake so that memory needs no second key."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .wire import HostModel

logger = logging.getLogger(__name__)

CHAT_MODES = frozenset({"", "chat_completions", "anthropic_messages"})
"""Ways of talking to a model that the worker speaks as well."""


def find_host_model() -> HostModel | None:
    """What the host would use for a turn now, or None. Never raises, never logs a key."""
    try:
        return _resolve()
    except Exception as error:  # noqa: BLE001 - the host's code, of any version, with whatever it raises
        logger.debug("memory_tencentdb: the host's model is not available: %s", type(error).__name__)
        return None


def _resolve() -> HostModel | None:
    from hermes_cli.config import load_config
    from hermes_cli.runtime_provider import resolve_runtime_provider

    from .wire import HostModel

    runtime: dict[str, Any] = resolve_runtime_provider() or {}
    settings = load_config().get("model")
    model = settings.get("default") or settings.get("model") if isinstance(settings, dict) else settings
    model = str(runtime.get("model") or model or "")
    key = runtime.get("api_key")
    if not model or not isinstance(key, str) or str(runtime.get("api_mode") or "") not in CHAT_MODES:
        return None
    return HostModel(str(runtime.get("base_url") or ""), key, model, str(runtime.get("provider") or ""))
