"""From settings to an embedder."""

from __future__ import annotations

from urllib.parse import urlsplit

from memory_tencentdb_worker.config.model import Embedding
from memory_tencentdb_worker.embedding.base import Embedder
from memory_tencentdb_worker.errors import ConfigError

NOT_HERE = {
    "local": "the bundled offline model is not part of this version",
    "zeroentropy": "the protocol of ZeroEntropy is not part of this version",
}


def build_embedder(settings: Embedding) -> Embedder | None:
    """None: no vectors are wanted. Any provider name that is not special is an OpenAI-compatible endpoint.

    Raises ConfigError naming every key that is missing.
    """
    provider = settings.provider.strip().lower()
    if not settings.enabled or provider in ("", "none"):
        return None
    if provider in NOT_HERE:
        raise ConfigError(f"memory.embedding.provider {provider!r}: {NOT_HERE[provider]}")
    missing = _missing_keys(settings, provider)
    if missing:
        raise ConfigError(f"memory.embedding.provider {provider!r} also needs {', '.join(missing)}")
    from memory_tencentdb_worker.embedding.openai_http import OpenAIEmbedder

    return OpenAIEmbedder(settings.model_copy(update={"provider": provider}))


def _missing_keys(settings: Embedding, provider: str) -> list[str]:
    given = {
        "apiKey": settings.api_key.get_secret_value().strip() != "",
        "baseUrl": _is_http(settings.base_url),
        "model": settings.model.strip() != "",
        "dimensions": settings.dimensions > 0,
    }
    if provider == "qclaw":
        given["proxyUrl"] = _is_http(settings.proxy_url)
    return [key for key, is_given in given.items() if not is_given]


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
