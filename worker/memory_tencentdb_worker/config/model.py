"""Every setting with its meaning and default. Names are the manual's (page 15), camelCase in files.

Defaults are the manual's unless a comment gives the reason for another. `load` applies values one by one, so that a
bad value costs only its own key.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel


class Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


Port = Annotated[int, Field(ge=0, le=65535)]
Percent = Annotated[float, Field(ge=0, le=1)]


class Server(Section):
    """The optional TCP listener. `port` 0: none; the Unix socket is always there."""

    host: str = "127.0.0.1"
    port: Port = 0
    api_key: SecretStr = SecretStr("")
    cors_origins: list[str] = []


class Data(Section):
    base_dir: str = ""
    """The data directory; "" is `<home>/data`. A leading `~/` is expanded."""


class LLMSettings(Section):
    """The extraction model: an OpenAI-compatible endpoint, or any litellm model name without a base URL."""

    offline: bool = False
    """Not in the manual: no model is ever asked, neither the one named here nor the host's own."""
    base_url: str = ""
    api_key: SecretStr = SecretStr("")
    model: str = ""
    max_tokens: Annotated[int, Field(ge=256, le=200_000)] = 4096
    timeout_ms: Annotated[int, Field(ge=1_000, le=3_600_000)] = 120_000
    disable_thinking: str | bool = False
    """One of the strategies of page 15: vllm, deepseek, dashscope, openai, anthropic, kimi, gemini; true is vllm."""


class Capture(Section):
    enabled: bool = True
    exclude_agents: list[str] = []
    """Glob patterns over session keys that are neither captured nor recalled; matched whole."""
    l0l1_retention_days: Annotated[int, Field(ge=0)] = Field(default=0, alias="l0l1RetentionDays")
    allow_aggressive_cleanup: bool = False
    clean_time: Annotated[str, Field(pattern=r"^([01]?\d|2[0-3]):[0-5]\d$")] = "03:00"


class Extraction(Section):
    enabled: bool = True
    enable_dedup: bool = True
    max_memories_per_session: Annotated[int, Field(ge=1, le=1000)] = 20
    model: str = ""
    reread_rule_made: bool = True


class PersonaSettings(Section):
    trigger_every_n: Annotated[int, Field(ge=1)] = Field(default=50, alias="triggerEveryN")
    max_scenes: Annotated[int, Field(ge=1, le=500)] = 15
    backup_count: Annotated[int, Field(ge=0)] = 3
    scene_backup_count: Annotated[int, Field(ge=0)] = 10
    model: str = ""


class Pipeline(Section):
    every_n_conversations: Annotated[int, Field(ge=1)] = Field(default=5, alias="everyNConversations")
    enable_warmup: bool = True
    l1_idle_timeout_seconds: Annotated[float, Field(ge=0)] = Field(default=600, alias="l1IdleTimeoutSeconds")
    l2_delay_after_l1_seconds: Annotated[float, Field(ge=0)] = Field(default=10, alias="l2DelayAfterL1Seconds")
    l2_min_interval_seconds: Annotated[float, Field(ge=0)] = Field(default=900, alias="l2MinIntervalSeconds")
    l2_max_interval_seconds: Annotated[float, Field(ge=0)] = Field(default=3600, alias="l2MaxIntervalSeconds")
    session_active_window_hours: Annotated[float, Field(ge=0)] = 24


class Recall(Section):
    enabled: bool = True
    max_results: Annotated[int, Field(ge=1, le=100)] = 5
    max_chars_per_memory: Annotated[int, Field(ge=0)] = 0
    max_total_recall_chars: Annotated[int, Field(ge=0)] = 0
    max_tokens: Annotated[int, Field(ge=50, le=100_000)] = 2000
    """Hard budget of one recall, volatile part. Not in the manual: recall text is replayed by the host in every later
    request, so an unlimited default would make each turn dearer than the last (hermes-host.md 0.8, trap B113)."""
    score_threshold: Annotated[float, Field(ge=0, le=1)] = 0.3
    strategy: Literal["embedding", "keyword", "hybrid"] = "hybrid"
    timeout_ms: Annotated[int, Field(ge=50, le=60_000)] = 2_000
    """The manual says 5,000; CONTRACT 7 sets 2,000."""


class Embedding(Section):
    enabled: bool = True
    provider: str = "auto"
    """The manual says "none". "auto" is the offline model where the extra `[local]` is installed, which needs no key,
    and none elsewhere."""
    base_url: str = ""
    api_key: SecretStr = SecretStr("")
    model: str = ""
    dimensions: Annotated[int, Field(ge=0, le=65_536)] = 0
    send_dimensions: bool = True
    proxy_url: str = ""
    conflict_recall_top_k: Annotated[int, Field(ge=1, le=50)] = Field(default=5, alias="conflictRecallTopK")
    max_input_chars: Annotated[int, Field(ge=50)] = 5_000
    timeout_ms: Annotated[int, Field(ge=100)] = 10_000
    recall_timeout_ms: Annotated[int, Field(ge=50)] | None = None
    capture_timeout_ms: Annotated[int, Field(ge=100)] | None = None
    model_cache_dir: str = ""


class Tcvdb(Section):
    url: str = ""
    username: str = "root"
    api_key: SecretStr = SecretStr("")
    database: str = ""
    alias: str = ""
    embedding_model: str = "bge-large-zh"
    timeout: Annotated[int, Field(ge=100)] = 10_000
    ca_pem_path: str = ""


class Bm25(Section):
    enabled: bool = True
    language: Literal["zh", "en"] = "zh"


class Report(Section):
    enabled: bool = False
    type: Literal["local"] = "local"


class Offload(Section):
    enabled: bool = False
    mode: Literal["", "local", "backend", "collect"] = ""
    model: str = ""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.2
    disable_thinking: str | bool = False
    force_trigger_threshold: Annotated[int, Field(ge=1)] = 4
    data_dir: str = ""
    default_context_window: Annotated[int, Field(ge=1)] = 200_000
    max_pairs_per_batch: Annotated[int, Field(ge=1)] = 20
    l2_null_threshold: Annotated[int, Field(ge=1)] = Field(default=4, alias="l2NullThreshold")
    l2_timeout_seconds: Annotated[float, Field(ge=0)] = Field(default=300, alias="l2TimeoutSeconds")
    mild_offload_ratio: Percent = 0.5
    aggressive_compress_ratio: Percent = 0.85
    mmd_max_token_ratio: Percent = 0.2
    backend_url: str = ""
    backend_api_key: SecretStr = SecretStr("")
    backend_timeout_ms: Annotated[int, Field(ge=100)] = 120_000
    offload_retention_days: Annotated[int, Field(ge=0)] = 0
    log_max_size_mb: Annotated[int, Field(ge=0)] = 50
    user_id: str = ""


class BudgetSettings(Section):
    """Not in the manual. A local day's limits, of the models' calls; 0: none."""

    tokens_per_day: Annotated[int, Field(ge=0)] = 0
    cost_usd_per_day: Annotated[float, Field(ge=0)] = Field(default=0.0, alias="costUsdPerDay")


class Forget(Section):
    auto: bool = False
    """A "forget that" in a conversation is carried out at once instead of waiting for the owner."""


class Secrets(Section):
    """Not in the manual. What is taken out of every text before it is kept (docs/security.md)."""

    enabled: bool = True
    allow: list[str] = []
    """What is no secret: a text as it is, or `/a regular expression/` for the whole of it."""
    personal: bool = False
    """Mail addresses, telephone numbers, national ids and bank accounts too."""


class Memory(Section):
    timezone: str = "system"
    """"system", an IANA name, or an offset such as +08:00. Stored instants stay UTC."""
    store_backend: Literal["sqlite", "tcvdb"] = "sqlite"
    capture: Capture = Capture()
    extraction: Extraction = Extraction()
    persona: PersonaSettings = PersonaSettings()
    pipeline: Pipeline = Pipeline()
    budget: BudgetSettings = BudgetSettings()
    recall: Recall = Recall()
    embedding: Embedding = Embedding()
    tcvdb: Tcvdb = Tcvdb()
    bm25: Bm25 = Bm25()
    report: Report = Report()
    offload: Offload = Offload()
    forget: Forget = Forget()
    secrets: Secrets = Secrets()


class Config(Section):
    server: Server = Server()
    data: Data = Data()
    llm: LLMSettings = LLMSettings()
    memory: Memory = Memory()
