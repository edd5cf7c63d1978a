"""Rules that one key's type cannot express: time zones, strategies, settings that only work together, safe binds."""

from __future__ import annotations

import ipaddress
import re
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from memory_tencentdb.redaction import allowed_pattern, hide_secrets, is_regex
from memory_tencentdb_worker.config.problems import ConfigProblem
from memory_tencentdb_worker.config.settings import default_value, shown

THINKING_STRATEGIES = frozenset({"vllm", "deepseek", "dashscope", "openai", "anthropic", "kimi", "gemini"})

WITHOUT_ENDPOINT = frozenset({"none", "auto", "local"})

_OFFSET = re.compile(r"[+-](0\d|1[0-4]):?[0-5]\d")


def check_values(values: dict[str, Any], problems: list[ConfigProblem], fatal: list[str]) -> None:
    """Corrects `values` (given ones only, by dotted key) in place and lists what it corrected."""
    _check_timezone(values, problems)
    for key in ("llm.disableThinking", "memory.offload.disableThinking"):
        _check_thinking(key, values, problems)
    for key in ("llm.baseUrl", "memory.embedding.baseUrl", "memory.tcvdb.url"):
        _check_url(key, values, problems)
    _check_retention(values, problems)
    _check_allowed(values, problems)
    _check_model_names(values, problems)
    _check_model(values, problems)
    _check_embedding(values, problems)
    _check_server(values, fatal)


def is_loopback(host: str) -> bool:
    name = host.strip().strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _drop(key: str, problem: str, values: dict[str, Any], problems: list[ConfigProblem], used: Any = None) -> None:
    used = default_value(key) if used is None else used
    problems.append(ConfigProblem(key, shown(key, values.get(key)), problem, shown(key, used)))
    values[key] = used


def _check_timezone(values: dict[str, Any], problems: list[ConfigProblem]) -> None:
    name = values.get("memory.timezone", "system")
    if name in ("system", "UTC") or _OFFSET.fullmatch(name):
        return
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError; odd names raise the others
        _drop("memory.timezone", "not a known time zone (an IANA name, an offset such as +08:00, or system)",
              values, problems)  # fmt: skip


def _check_thinking(key: str, values: dict[str, Any], problems: list[ConfigProblem]) -> None:
    value = values.get(key, False)
    if isinstance(value, bool):
        return
    word = value.strip().lower()
    if word in ("true", "1", "yes", "on"):
        values[key] = True
    elif word in ("", "false", "0", "no", "off"):
        values[key] = False
    elif word in THINKING_STRATEGIES:
        values[key] = word
    else:
        _drop(key, f"must be true, false or one of {', '.join(sorted(THINKING_STRATEGIES))}", values, problems)


def _check_url(key: str, values: dict[str, Any], problems: list[ConfigProblem]) -> None:
    value = values.get(key, "")
    if not value:
        return
    try:
        parts = urlsplit(value.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if usable:
        values[key] = value.strip()
    else:
        _drop(key, "must be an http:// or https:// address", values, problems)


def _check_model(values: dict[str, Any], problems: list[ConfigProblem]) -> None:
    """An address or key without a model's name cannot be used, which must not pass for a chosen offline mode."""
    halves = [key for key in ("llm.baseUrl", "llm.apiKey") if _given(values.get(key))]
    listed = any(problem.key == "llm.model" for problem in problems)
    if halves and not _given(values.get("llm.model")) and not listed:
        problems.append(ConfigProblem("llm.model", "", f"is empty although {halves[0]} is set; no model is used", ""))


def _check_retention(values: dict[str, Any], problems: list[ConfigProblem]) -> None:
    days = values.get("memory.capture.l0l1RetentionDays", 0)
    if days in (1, 2) and not values.get("memory.capture.allowAggressiveCleanup", False):
        _drop("memory.capture.l0l1RetentionDays", "1 or 2 days need memory.capture.allowAggressiveCleanup: true",
              values, problems)  # fmt: skip


def _check_model_names(values: dict[str, Any], problems: list[ConfigProblem]) -> None:
    """A key in the place of a model's name would stand in the ledger and in the status."""
    for key in [key for key in values if key.endswith(".model")]:
        if isinstance(values[key], str) and hide_secrets(values[key]) != values[key]:
            _drop(key, "looks like a secret, not like the name of a model", values, problems)


def _check_allowed(values: dict[str, Any], problems: list[ConfigProblem]) -> None:
    """An entry that is no regular expression costs only itself, and allows nothing."""
    key = "memory.secrets.allow"
    entries = values.get(key, [])
    wrong = [entry for entry in entries if is_regex(entry) and allowed_pattern(entry) is None]
    if wrong:
        values[key] = [entry for entry in entries if entry not in wrong]
        problem = "no regular expression; nothing is allowed by it"
        problems.append(ConfigProblem(key, shown(key, wrong), problem, shown(key, values[key])))


def _check_embedding(values: dict[str, Any], problems: list[ConfigProblem]) -> None:
    """An OpenAI-compatible embedder needs an address, a key, a model and its width; else there are no vectors."""
    prefix = "memory.embedding."
    provider = str(values.get(f"{prefix}provider", "")).strip().lower() or "auto"
    values[f"{prefix}provider"] = provider
    if provider in WITHOUT_ENDPOINT or values.get(f"{prefix}enabled") is False:
        return
    needed = ["baseUrl", "apiKey", "model", "dimensions", *(["proxyUrl"] if provider == "qclaw" else [])]
    missing = [name for name in needed if not _given(values.get(prefix + name))]
    if {prefix + name for name in missing} & {problem.key for problem in problems}:
        values[f"{prefix}provider"] = "none"  # the cause is listed already
    elif missing:
        _drop(f"{prefix}provider", f"needs {', '.join(prefix + name for name in missing)}; there are no vectors",
              values, problems, used="none")  # fmt: skip


def _check_server(values: dict[str, Any], fatal: list[str]) -> None:
    host = values.get("server.host", "127.0.0.1")
    if not host.strip():
        fatal.append("server.host is empty; a security setting has no fallback")
    elif not is_loopback(host) and not _given(values.get("server.apiKey")):
        fatal.append(f"server.host {host} can be reached by others, so server.apiKey must be set")
    for origin in values.get("server.corsOrigins", []):
        parts = urlsplit(origin)
        if origin != "*" and not (parts.scheme in ("http", "https") and parts.netloc and parts.path in ("", "/")):
            fatal.append(f"server.corsOrigins holds {shown('server.corsOrigins', origin)}, which is not an origin")


def _given(value: Any) -> bool:
    text = value.get_secret_value() if hasattr(value, "get_secret_value") else value
    return bool(text.strip() if isinstance(text, str) else text)
