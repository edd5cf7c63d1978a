"""One question to the model: the call, the parsing and one repair round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from memory_tencentdb_worker.config.model import LLMSettings
from memory_tencentdb_worker.errors import LLMContent
from memory_tencentdb_worker.layers.short_ids import ShortIds
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.llm.parsing import parse_json_answer
from memory_tencentdb_worker.models import CompletionRequest
from memory_tencentdb_worker.prompts import load

CONTEXT_LENGTH = "context_length"
TOO_LONG = frozenset({"truncated", CONTEXT_LENGTH})
"""Codes of LLMContent that a smaller batch may cure."""

PARKED_TEXT_LIMIT = 2_000

T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """`keys`: under which field of an object the answer may stand; none: the whole object is the answer."""

    task: str
    scope: str
    user: str
    keys: Sequence[str]
    ids: ShortIds = field(default_factory=ShortIds)  # those that `user` was written with
    model: str = ""
    note: str = ""  # added to the instructions
    about: tuple[int, int] | None = None  # as in the request


def ask(llm: LLM, question: Question, settings: LLMSettings, read: Callable[[object], T], *, divisible: bool) -> T:
    """The answer, as `read` understands it. `read` raises LLMContent for an answer of the wrong shape.

    An unusable answer is asked for once more with a stricter system message; but a question that is too long, or one
    whose answer is and which is `divisible`, is the caller's to deal with.

    Raises LLMTransient, LLMTerminal or LLMContent.
    """
    request = _request(question, settings)
    try:
        return _answer(llm, request, question, read)
    except LLMContent as error:
        if error.code == CONTEXT_LENGTH or (divisible and error.code in TOO_LONG):
            raise
    return _answer(llm, _stricter(request), question, read)


def what_came(error: LLMContent) -> str:
    """The raw answer for the record of what was parked, capped."""
    return (error.raw or str(error))[:PARKED_TEXT_LIMIT]


def _request(question: Question, settings: LLMSettings) -> CompletionRequest:
    return CompletionRequest(
        task=question.task,
        system=f"{load(question.task)}\n\n{question.note}".rstrip(),
        user=question.user,
        max_tokens=settings.max_tokens,
        timeout_seconds=settings.timeout_ms / 1000,
        model=question.model,
        scope=question.scope,
        about=question.about,
    )


def _stricter(request: CompletionRequest) -> CompletionRequest:
    return replace(request, system=f"{request.system}\n\n{load('repair')}")


def _answer(llm: LLM, request: CompletionRequest, question: Question, read: Callable[[object], T]) -> T:
    completion = llm.complete(request)
    value = parse_json_answer(completion.text, question.keys, truncated=completion.finish_reason == "length")
    try:
        return read(question.ids.restored(value))
    except LLMContent as error:
        raise LLMContent(str(error), raw=completion.text, code=error.code) from error
