"""Asks the model or the embedder one tiny question, so that a person learns at once whether a setting works."""

from __future__ import annotations

import time
from typing import Any

from memory_tencentdb_worker.embedding.base import Embedder
from memory_tencentdb_worker.errors import EmbeddingError, InvalidInput, LLMContent, LLMError
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import CompletionRequest
from memory_tencentdb_worker.prompts import load

PARTS = ("llm", "embedding")
LLM_SECONDS = 15.0
EMBEDDING_SECONDS = 10.0
ANSWER_TOKENS = 256
"""A model that thinks aloud needs room before its one word."""


def check_part(part: str, llm: LLM | None, embedder: Embedder | None) -> dict[str, Any]:
    """`{part, asked, answers, model, endpoint, error, elapsed_ms}`; `asked` false when there is nothing to ask.

    The model's first call also waits for the lane to load. Raises InvalidInput for another part."""
    if part not in PARTS:
        raise InvalidInput(f"part must be one of {', '.join(PARTS)}")
    begun = time.monotonic()
    if part == "llm":
        error = _ask_llm(llm) if llm is not None else ""
        found = {"model": llm.model, "endpoint": llm.endpoint} if llm is not None else {"model": "", "endpoint": ""}
        asked = llm is not None
    else:
        error = _ask_embedder(embedder) if embedder is not None else ""
        found = {"model": embedder.space.model if embedder is not None else "", "endpoint": ""}
        asked = embedder is not None
    elapsed_ms = round((time.monotonic() - begun) * 1000)
    return {"part": part, "asked": asked, "answers": asked and not error, **found, "error": error or None,
            "elapsed_ms": elapsed_ms}  # fmt: skip


def _ask_llm(llm: LLM) -> str:
    """Why it does not answer, "" when it does: any text at all will do, even a useless one."""
    request = CompletionRequest(
        task="check", system=load("check"), user="ready?", max_tokens=ANSWER_TOKENS, timeout_seconds=LLM_SECONDS,
        json_mode=False,
    )  # fmt: skip
    try:
        llm.complete(request)
    except LLMContent:
        return ""
    except LLMError as error:
        return str(error)
    return ""


def _ask_embedder(embedder: Embedder) -> str:
    try:
        embedder.embed(["ready?"], kind="query", timeout_seconds=EMBEDDING_SECONDS)
    except EmbeddingError as error:
        return str(error)
    return ""
