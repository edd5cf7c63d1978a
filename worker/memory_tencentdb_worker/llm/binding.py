"""litellm behind one function: a call in, a classified answer out. Imported by the lane only.

No retries, no streaming, no telemetry here: the pipeline retries, on its own schedule (litellm alone makes three
requests of one and waits 6,000 seconds by default).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping

import litellm

from memory_tencentdb_worker.endpoints import Verdict, error_text, judge_failure, retry_after_seconds, scrub
from memory_tencentdb_worker.llm.wire import LaneAnswer, LaneCall

NO_KEY = "not-needed"  # without one, the client would send a key from the environment to a foreign endpoint
_DIRECT = frozenset({"temperature", "top_p", "seed", "stop", "presence_penalty", "frequency_penalty"})
_GARBAGE = re.compile(
    r"Empty or invalid response|Invalid response object|Expecting|Unterminated|Extra data|Invalid control"
    r"|Unable to get json|invalid json|object has no attribute",
    re.I,
)
_PREFIXES = re.compile(r"(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)\b(?: Error)?[\s:-]*)+")
_UNREACHED = re.compile(r"Connection error|Connection refused|Name or service not known|getaddrinfo", re.I)
_MISCONFIGURED = re.compile(r"LLM Provider NOT provided|api_key client option must be set|Missing credentials", re.I)


class LiteLLMBinding:
    """Makes calls; knows nothing between them."""

    def __init__(self) -> None:
        litellm.suppress_debug_info = True
        litellm.turn_off_message_logging = True
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx", "openai"):
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def answer(self, call: LaneCall, *, now: int) -> LaneAnswer:
        """Never raises. A parameter that the endpoint rejects is left out and the call made again, within its time."""
        without, deadline = list(call.without), time.monotonic() + call.timeout_seconds
        timeout_seconds = call.timeout_seconds  # the same for every call: litellm keeps one client for each value
        while True:
            arguments = _arguments(call, without, timeout_seconds)
            try:
                response = litellm.completion(**arguments)
            except Exception as problem:  # noqa: BLE001  litellm raises the errors of a hundred libraries, and bare ones
                rejected = _rejected_parameter(problem, arguments, without)
                if rejected and time.monotonic() < deadline:
                    without.append(rejected)
                    continue
                return _failed(call, problem, tuple(without), now)
            return _judged(call, response, tuple(without))


def _arguments(call: LaneCall, without: list[str], timeout_seconds: float) -> dict[str, object]:
    fields = {name: value for name, value in call.fields.items() if name not in without}
    arguments: dict[str, object] = {
        "model": call.model,
        "messages": [{"role": "system", "content": call.system}, {"role": "user", "content": call.user}],
        "timeout": timeout_seconds,
        "max_retries": 0,
        "stream": False,
    }
    if call.base_url:
        arguments |= {"model": f"openai/{call.model}", "api_base": call.base_url, "api_key": call.api_key or NO_KEY}
    elif call.api_key:
        arguments["api_key"] = call.api_key
    if call.json_mode and "response_format" not in without:
        arguments["response_format"] = {"type": "json_object"}
    arguments |= {name: fields.pop(name) for name in _DIRECT & fields.keys()}
    if "max_tokens" not in without:
        arguments["max_tokens"] = call.max_tokens
    elif "max_completion_tokens" not in without:
        fields["max_completion_tokens"] = call.max_tokens
    if fields:
        arguments["extra_body"] = fields
    return arguments


def _rejected_parameter(problem: Exception, arguments: Mapping[str, object], without: list[str]) -> str:
    """The optional parameter that a 400 or 422 names; "" when it is about something else."""
    if getattr(problem, "status_code", None) not in (400, 422):
        return ""
    message = _message(problem)
    if judge_failure(400, message).code != "bad_request":
        return ""
    extra = arguments.get("extra_body")
    sent = [*(extra if isinstance(extra, dict) else ()), *(_DIRECT & arguments.keys())]
    sent += [name for name in ("response_format", "max_tokens") if name in arguments]
    named = [name for name in sent if name not in without and re.search(rf"\b{name}\b", message)]
    return max(named, key=len, default="")


def _message(problem: Exception) -> str:
    body = getattr(problem, "body", None)
    return f"{body} {problem}" if body else str(problem)


def _failed(call: LaneCall, problem: Exception, rejected: tuple[str, ...], now: int) -> LaneAnswer:
    status = getattr(problem, "status_code", None)
    verdict = _judge(status if isinstance(status, int) else None, _message(problem))
    headers = getattr(problem, "litellm_response_headers", None) or {}
    return LaneAnswer(
        id=call.id,
        rejected=rejected,
        failure=verdict.kind,
        code=verdict.code,
        message=scrub(_explained(verdict, status, problem), call.api_key),
        retry_after_seconds=retry_after_seconds(headers, now) if isinstance(headers, Mapping) else None,
    )


def _explained(verdict: Verdict, status: object, problem: Exception) -> str:
    """What goes into logs and `status`; of a garbled answer nothing is repeated, it may hold conversation text."""
    if verdict.code == "garbage":
        return "the endpoint's answer is no completion"
    text = error_text(_PREFIXES.sub("", str(problem), count=1))
    return text if verdict.code == "unreachable" else f"{status or ''} {text}".strip()


def _judge(status: int | None, message: str) -> Verdict:
    """litellm gives 500 to whatever it could not read or reach, and 400 to a model name it cannot place."""
    if _MISCONFIGURED.search(message):
        return Verdict("terminal", "misconfigured")
    verdict = judge_failure(status, message)
    if verdict.kind == "transient" and _UNREACHED.search(message):
        return Verdict("transient", "unreachable")
    if verdict.kind == "transient" and _GARBAGE.search(message):
        return Verdict("transient", "garbage")
    return verdict


def _judged(call: LaneCall, response: object, rejected: tuple[str, ...]) -> LaneAnswer:
    """The answer, or the reason why this is none: filtered, refused, empty."""
    choices = getattr(response, "choices", None) or []
    usage = getattr(response, "usage", None)
    message = getattr(choices[0], "message", None) if choices else None
    text = getattr(message, "content", None) or ""
    finish = str(getattr(choices[0], "finish_reason", "") or "") if choices else ""
    refusal = getattr(message, "refusal", None)
    code, problem = "", ""
    if not choices:
        code, problem = "empty_choices", "the answer holds no choice"
    elif finish == "content_filter":
        code, problem = "content_filter", "the endpoint's content filter withheld the answer"
    elif refusal and not text.strip():
        code, problem = "refusal", f"the model refused: {str(refusal)[:200]}"
    elif not text.strip() and getattr(message, "reasoning_content", None):
        code, problem = "only_reasoning", "only reasoning, no answer"
    elif not text.strip():
        code, problem = "empty", f"the model answered with no text (finish reason {finish or 'unknown'})"
    return LaneAnswer(
        id=call.id,
        text=text,
        finish_reason=finish,
        model=str(getattr(response, "model", "") or call.model),
        tokens_in=int(getattr(usage, "prompt_tokens", 0) or 0),
        tokens_out=int(getattr(usage, "completion_tokens", 0) or 0),
        cost_usd=_cost(response),
        rejected=rejected,
        failure="content" if code else "",
        code=code,
        message=scrub(problem, call.api_key),
    )


def _cost(response: object) -> float:
    """0 for a model that litellm's price list does not know."""
    try:
        return float(litellm.completion_cost(completion_response=response) or 0.0)
    except Exception:  # noqa: BLE001  an unknown model raises a bare Exception; a price is never worth an answer
        return 0.0
