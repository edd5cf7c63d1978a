"""The two tools the model may call: their schemas, which never change, and what becomes of a call."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from .errors import ProviderError, RequestRefused
from .protocol import BAD_STATES, SEARCH_CONVERSATIONS, SEARCH_MEMORIES
from .turns import shorten_query

MEMORY_SEARCH = "memory_tencentdb_memory_search"
CONVERSATION_SEARCH = "memory_tencentdb_conversation_search"
CALLS_A_TURN = 3
DEFAULT_LIMIT = 5
LIMIT_RANGE = (1, 20)
SEARCH_SECONDS = 5.0
MEMORY_TYPES = ("persona", "episodic", "instruction")

UNAVAILABLE = (
    "Long-term memory cannot be searched right now. Do not call this tool again in this turn; "
    "answer from the conversation, and say so if something you should know is missing."
)
USED_UP = (
    f"The search budget of this turn ({CALLS_A_TURN} calls to the memory search tools) is used up. "
    "Answer with what has been found."
)

_LIMIT_SCHEMA = {"type": "integer", "description": "How many results at most, 1 to 20. Default 5."}

SCHEMAS: tuple[dict[str, Any], ...] = (
    {
        "name": MEMORY_SEARCH,
        "description": (
            "Search long-term memory: facts about the user, past events, standing instructions. Use it when the answer "
            "may depend on earlier conversations and the recalled context does not hold it. Each result has an id and "
            f"a date. Both memory search tools together may be called at most {CALLS_A_TURN} times a turn."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for, in the user's own words or keywords."},
                "limit": _LIMIT_SCHEMA,
                "type": {
                    "type": "string",
                    "enum": list(MEMORY_TYPES),
                    "description": "persona: who the user is; episodic: what happened; instruction: what to always do.",
                },
                "scene": {"type": "string", "description": "Only memories whose scene name contains this."},
            },
            "required": ["query"],
        },
    },
    {
        "name": CONVERSATION_SEARCH,
        "description": (
            "Search the original messages of earlier conversations, word for word. Use it for exact wording, numbers, "
            f"or when {MEMORY_SEARCH} finds too little. It shares that tool's budget of {CALLS_A_TURN} calls a turn."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words that the message contains."},
                "limit": _LIMIT_SCHEMA,
                "session_key": {"type": "string", "description": "Only messages of this session."},
            },
            "required": ["query"],
        },
    },
)

Ask = Callable[[str, dict[str, Any], float], dict[str, Any]]


class Tools:
    """Answers calls and counts them; `start_turn` gives the model a new budget."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0

    def start_turn(self) -> None:
        with self._lock:
            self._calls = 0

    def call(self, name: str, args: object, user_id: str, ask: Ask) -> str:
        """A JSON string, whatever happens. `user_id` comes from the host; nothing in `args` changes it."""
        arguments = args if isinstance(args, dict) else {}
        if name not in (MEMORY_SEARCH, CONVERSATION_SEARCH):
            return _error(f"There is no tool named {name}.")
        query = str(arguments.get("query") or "").strip()
        if not query:
            return _error("The query is empty: say what to look for.")
        if not self._spend_call():
            return _error(USED_UP)
        route, body = _request(name, query, arguments)
        try:
            answer = ask(route, body | {"user_id": user_id}, SEARCH_SECONDS)
        except RequestRefused as error:
            return _error(f"The search was refused: {error.message}")
        except ProviderError:
            return _error(UNAVAILABLE)
        shown = {key: answer.get(key) for key in ("results", "total", "strategy")}
        if answer.get("state") in BAD_STATES:
            shown["state"] = answer["state"]  # what was said lately may be missing
        return json.dumps(shown, ensure_ascii=False)

    def _spend_call(self) -> bool:
        with self._lock:
            self._calls += 1
            return self._calls <= CALLS_A_TURN


def coerce_limit(value: object) -> int:
    """Models send null, "", true, "7", 3.0 or nonsense; anything without a number means the default."""
    if isinstance(value, bool) or value is None:
        return DEFAULT_LIMIT
    try:
        number = int(float(str(value).strip()))
    except (ValueError, OverflowError):
        return DEFAULT_LIMIT
    return min(max(number, LIMIT_RANGE[0]), LIMIT_RANGE[1])


def _request(name: str, query: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    body: dict[str, Any] = {"query": shorten_query(query), "limit": coerce_limit(arguments.get("limit"))}
    if name == CONVERSATION_SEARCH:
        return SEARCH_CONVERSATIONS, body | _texts(arguments, "session_key")
    chosen = _texts(arguments, "type", "scene")
    if chosen.get("type") not in MEMORY_TYPES:
        chosen.pop("type", None)  # a filter that cannot match anything is a mistake of the model, not a wish
    return SEARCH_MEMORIES, body | chosen


def _texts(arguments: dict[str, Any], *names: str) -> dict[str, Any]:
    texts = {name: arguments[name].strip() for name in names if isinstance(arguments.get(name), str)}
    return {name: text for name, text in texts.items() if text}


def _error(message: str) -> str:
    """`retry` false tells the model, and hosts that look for it, that the same call will fail again (trap B13)."""
    return json.dumps({"error": message, "retry": False})
