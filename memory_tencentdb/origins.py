"""Whose words a turn holds, as far as the host's own list of messages tells: for the class that each message gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

USER, ASSISTANT, TOOL, WEB = "user", "assistant", "tool", "web"

MACHINE_PLATFORMS = frozenset({"webhook"})
"""What comes in there as a "user" was written by a program."""

_WEB_WORDS = ("web", "browser", "browse", "fetch", "crawl", "scrape", "http", "url", "rss", "email", "mail")
_OWN_TOOLS = ("memory", "session_search", "todo", "clarify", "skill")
"""They show the agent what it knows already, or ask the person."""


def user_origin(platform: str) -> str:
    return WEB if platform.lower() in MACHINE_PLATFORMS else USER


def answer_origin(messages: object) -> str:
    """ "web" when the last turn's answer was made with pages, "tool" when with any other tool, else "assistant"."""
    names = _tools_of_last_turn(messages)
    if any(word in name for name in names for word in _WEB_WORDS):
        return WEB
    return TOOL if names else ASSISTANT


def _tools_of_last_turn(messages: object) -> set[str]:
    names: set[str] = set()
    for message in reversed(messages if isinstance(messages, list) else []):
        if not isinstance(message, Mapping):
            continue
        if message.get("role") == "user":
            break
        if message.get("role") in ("tool", "function"):
            names.add(str(message.get("tool_name") or message.get("name") or "tool").lower())
        names.update(_called(message.get("tool_calls")))
    return {name for name in names if not name.startswith(_OWN_TOOLS)}


def _called(calls: Any) -> set[str]:
    listed = calls if isinstance(calls, list) else []
    functions = [call.get("function") for call in listed if isinstance(call, Mapping)]
    return {str(one.get("name") or "tool").lower() for one in functions if isinstance(one, Mapping)}
