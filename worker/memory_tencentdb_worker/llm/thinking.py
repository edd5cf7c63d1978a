"""How each family of endpoints is told not to think at length (the manual's `disableThinking`, page 15)."""

from __future__ import annotations

FIELDS: dict[str, dict[str, object]] = {
    "vllm": {"chat_template_kwargs": {"enable_thinking": False}},
    "deepseek": {"enable_thinking": False},
    "dashscope": {"enable_thinking": False},
    "openai": {"reasoning_effort": "low"},  # these models cannot be kept from thinking altogether
    "anthropic": {"thinking": {"type": "disabled"}},
    "kimi": {"thinking": {"type": "disabled"}},
    "gemini": {"thinking_config": {"thinking_budget": 0}},
}


def normalise_strategy(value: str | bool) -> tuple[str, str]:
    """(strategy, problem). "" is no strategy; a name that is not known counts as none, and `problem` says so."""
    if value is True:
        return "vllm", ""
    name = value.strip().lower() if isinstance(value, str) else ""
    if name in ("", "false", "none", "off"):
        return "", ""
    if name == "true":
        return "vllm", ""
    if name not in FIELDS:
        return "", f"unknown strategy {value!r}; known ones are {', '.join(FIELDS)}"
    return name, ""


def thinking_fields(value: str | bool) -> dict[str, object]:
    """The extra request fields of a strategy; {} for none or an unknown one."""
    strategy, _ = normalise_strategy(value)
    return dict(FIELDS.get(strategy, {}))
