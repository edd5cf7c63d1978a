"""Which environment variables set which keys (CONTRACT section 4), and where the configuration file is."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

VARIABLES = {
    "TDAI_GATEWAY_HOST": "server.host",
    "TDAI_GATEWAY_PORT": "server.port",
    "TDAI_GATEWAY_API_KEY": "server.apiKey",
    "TDAI_CORS_ORIGINS": "server.corsOrigins",
    "TDAI_DATA_DIR": "data.baseDir",
    "TDAI_LLM_BASE_URL": "llm.baseUrl",
    "TDAI_LLM_API_KEY": "llm.apiKey",
    "TDAI_LLM_MODEL": "llm.model",
    "TDAI_LLM_MAX_TOKENS": "llm.maxTokens",
    "TDAI_LLM_TIMEOUT_MS": "llm.timeoutMs",
    "TDAI_LLM_DISABLE_THINKING": "llm.disableThinking",
    "TDAI_EMBEDDING_PROVIDER": "memory.embedding.provider",
    "TDAI_EMBEDDING_BASE_URL": "memory.embedding.baseUrl",
    "TDAI_EMBEDDING_API_KEY": "memory.embedding.apiKey",
    "TDAI_EMBEDDING_MODEL": "memory.embedding.model",
    "TDAI_EMBEDDING_DIMENSIONS": "memory.embedding.dimensions",
}

FILE_VARIABLE = "TDAI_GATEWAY_CONFIG"

_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def candidate_files(home: Path, env: Mapping[str, str]) -> Iterator[Path]:
    """Where a configuration file may be, first match wins; the explicit one is not among them."""
    yield from (home / "config.yaml", home / "config.json")
    data_dir = Path(env["TDAI_DATA_DIR"]).expanduser() if env.get("TDAI_DATA_DIR") else home / "data"
    for folder in (Path.cwd(), home, data_dir):
        for name in ("tdai-gateway.yaml", "tdai-gateway.json"):
            path = folder / name
            if folder != Path.cwd() or _is_ours(path):
                yield path


def placeholder(value: object) -> str | None:
    """The variable's name when the whole text is `${NAME}`."""
    match = _PLACEHOLDER.fullmatch(value.strip()) if isinstance(value, str) else None
    return match.group(1) if match else None


def _is_ours(path: Path) -> bool:
    """A file in the working directory counts only when this user wrote it: it could name a foreign model endpoint."""
    try:
        return sys.platform == "win32" or path.stat().st_uid == os.getuid()
    except OSError:
        return False
