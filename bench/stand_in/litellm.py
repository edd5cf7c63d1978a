"""A stand-in for litellm, laid before the real one on the lane's search path: importing that one takes seconds at each
start of a lane, and the kill matrix starts thousands. One OpenAI-compatible request, errors in litellm's shape."""

from __future__ import annotations

import http.client
import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

suppress_debug_info = False
turn_off_message_logging = False


class EndpointError(Exception):
    def __init__(self, status: int | None, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status_code, self.body = status, message
        self.litellm_response_headers = headers or {}


def completion(
    *, model: str, messages: list[Any], timeout: float, api_base: str, max_tokens: int = 0, **_: Any
) -> SimpleNamespace:
    address = urlsplit(api_base)
    body = {"model": model.removeprefix("openai/"), "messages": messages, "max_tokens": max_tokens}
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout)
    try:
        connection.request("POST", f"{address.path}/chat/completions", json.dumps(body))
        answer = connection.getresponse()
        text, headers = answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}
    except TimeoutError as error:
        raise EndpointError(408, f"Request timed out: {error}") from error
    except OSError as error:
        raise EndpointError(500, f"Connection error: {error}") from error
    finally:
        connection.close()
    if answer.status >= 300:
        raise EndpointError(answer.status, text, headers)
    if not text:
        raise EndpointError(500, "Empty or invalid response from the endpoint")
    return _namespace(json.loads(text))


def completion_cost(**_: Any) -> float:
    return 0.0


def _namespace(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{key: _namespace(item) for key, item in value.items()})
    return [_namespace(item) for item in value] if isinstance(value, list) else value
