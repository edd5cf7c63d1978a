"""From settings to an embedder."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from memory_tencentdb_worker.config.model import Embedding
from memory_tencentdb_worker.embedding.base import Embedder, ReportUse
from memory_tencentdb_worker.embedding.local_models import MODELS, LocalModel, find_local_model
from memory_tencentdb_worker.errors import ConfigError
from memory_tencentdb_worker.models import EmbeddingSpace

NO_VECTORS = ("", "none")


def build_embedder(
    settings: Embedding, log_dir: Path | None = None, report: ReportUse | None = None
) -> Embedder | None:
    """None: no vectors are wanted, or none are to be had without being asked for ("auto" without the extra `[local]`).
    Any provider name that is not special is an OpenAI-compatible endpoint, of whose requests `report` is told.

    Raises ConfigError naming every key that is missing.
    """
    provider = settings.provider.strip().lower()
    if not settings.enabled or provider in NO_VECTORS:
        return None
    if provider in ("auto", "local"):
        return _local(provider, settings, log_dir)
    missing = _missing_keys(settings, provider)
    if missing:
        raise ConfigError(f"memory.embedding.provider {provider!r} also needs {', '.join(missing)}")
    from memory_tencentdb_worker.embedding.openai_http import OpenAIEmbedder

    return OpenAIEmbedder(settings.model_copy(update={"provider": provider}), report)


def build_former_embedder(
    settings: Embedding, space: EmbeddingSpace, log_dir: Path | None = None, report: ReportUse | None = None
) -> Embedder | None:
    """For the questions to a space that is being replaced: its model, if it can still be had. An endpoint's model is
    asked for where the new one is, which is where it was if only the model was changed."""
    if space.provider == "local":
        model = MODELS.get(space.model)
        return None if model is None or find_local_model() != model else _started_lazily(model, settings, log_dir)
    provider = settings.provider.strip().lower()
    if provider != space.provider:
        return None
    former = settings.model_copy(update={"model": space.model, "dimensions": space.dimensions})
    return None if _missing_keys(former, provider) else build_embedder(former, log_dir, report)


def _local(provider: str, settings: Embedding, log_dir: Path | None) -> Embedder | None:
    found = find_local_model()
    if isinstance(found, LocalModel):
        return _started_lazily(found, settings, log_dir)
    if provider == "auto":
        return None
    raise ConfigError(f"memory.embedding.provider 'local': {found}")


def _started_lazily(model: LocalModel, settings: Embedding, log_dir: Path | None) -> Embedder:
    from memory_tencentdb_worker.embedding.local import LocalEmbedder

    return LocalEmbedder(model, settings.max_input_chars, log_dir)


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
