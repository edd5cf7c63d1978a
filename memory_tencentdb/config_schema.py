"""The settings panel of the host's desktop app. It writes `config.json` in this provider's home, key by key, so that
the keys are those of the file and a section is one JSON value."""

from __future__ import annotations

from typing import Any

try:
    from plugins.memory.config_schema import KIND_JSON, KIND_SECRET, ProviderConfigSchema, ProviderField
except ImportError:  # a host without the panel
    CONFIG_SCHEMA: Any = None
else:
    CONFIG_SCHEMA = ProviderConfigSchema(
        name="memory_tencentdb",
        label="memory_tencentdb",
        fields=(
            ProviderField(
                key="llm",
                label="Model",
                kind=KIND_JSON,
                description="The model that extracts memories. Empty: the host's own model, else the offline mode.",
                placeholder='{"baseUrl": "https://...", "model": "..."}',
                inline=True,
                group="Model",
            ),
            ProviderField(
                key="llm_api_key",
                label="Model API key",
                kind=KIND_SECRET,
                env_key="TDAI_LLM_API_KEY",
                description="Only needed with a model of its own.",
                inline=True,
                group="Model",
            ),
            ProviderField(
                key="memory",
                label="Memory",
                kind=KIND_JSON,
                description="Everything else: capture, extraction, pipeline, recall, embedding.",
                placeholder='{"recall": {"maxTokens": 2000}}',
                group="Memory",
            ),
        ),
    )
