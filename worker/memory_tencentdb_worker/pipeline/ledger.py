"""Every call of a model or an embedding endpoint is written down, also the failed ones: what it was for, what it cost,
how it ended."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from memory_tencentdb_worker.embedding.base import EmbeddingUse
from memory_tencentdb_worker.errors import LLMError, StoreError
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import EMBEDDING_TASK, Completion, CompletionRequest, ModelCall
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.tokens import count_tokens

logger = logging.getLogger(__name__)

ERROR_LIMIT = 500


class LedgerLLM:
    """An LLM that keeps the ledger. A ledger that cannot be written costs a log line, not the answer paid for."""

    def __init__(self, llm: LLM, store: Store, clock: Callable[[], int]) -> None:
        self._llm, self._store, self._clock = llm, store, clock

    @property
    def model(self) -> str:
        return self._llm.model

    @property
    def endpoint(self) -> str:
        return self._llm.endpoint

    def complete(self, request: CompletionRequest) -> Completion:
        at, begun = self._clock(), time.monotonic()
        try:
            completion = self._llm.complete(request)
        except LLMError as error:
            elapsed_ms = round((time.monotonic() - begun) * 1000)
            self._record(
                ModelCall(
                    at=at,
                    task=request.task,
                    scope=request.scope,
                    model=request.model or self.model,
                    tokens_in=0,
                    tokens_out=0,
                    cost_usd=0.0,
                    elapsed_ms=elapsed_ms,
                    outcome=error.code,
                    error=str(error)[:ERROR_LIMIT],
                    generation=request.generation,
                    about=request.about,
                )
            )
            raise
        tokens_in, tokens_out = completion.tokens_in, completion.tokens_out
        unnamed = tokens_in + tokens_out == 0  # a budget that counted them as none would never be reached
        if unnamed:
            tokens_in, tokens_out = (
                count_tokens(request.system) + count_tokens(request.user),
                count_tokens(completion.text),
            )
        self._record(
            ModelCall(
                at=at,
                task=request.task,
                scope=request.scope,
                model=completion.model,
                tokens_in=tokens_in,
                tokens_out=tokens_out,
                cost_usd=completion.cost_usd,
                elapsed_ms=completion.elapsed_ms,
                outcome="ok",
                estimated=unnamed,
                generation=request.generation,
                about=request.about,
            )
        )
        return completion

    def close(self) -> None:
        self._llm.close()

    def _record(self, call: ModelCall) -> None:
        try:
            self._store.record_call(call)
        except StoreError as error:
            logger.warning("a %s call could not be written to the ledger: %s", call.task, error)


class EmbeddingLedger:
    """Takes note of requests to an embedding endpoint. A question's must not wait for a write: it is kept until the
    next `settle`, at most seconds later; a process that dies meanwhile loses the line, not the vector."""

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        self._store, self._clock = store, clock
        self._noted: deque[ModelCall] = deque()

    def note(self, use: EmbeddingUse) -> None:
        """Any thread may call; never waits, never raises."""
        counted = use.tokens is None and use.outcome == "ok"
        self._noted.append(
            ModelCall(
                at=self._clock(),
                task=EMBEDDING_TASK,
                scope="",
                model=use.model,
                tokens_in=use.estimate if counted else use.tokens or 0,
                tokens_out=0,
                cost_usd=0.0,
                elapsed_ms=use.elapsed_ms,
                outcome=use.outcome,
                texts=use.texts,
                estimated=counted,
            )
        )

    def settle(self) -> None:
        """Writes down what was noted. What cannot be written now is kept. Raises StoreError."""
        while self._noted:
            call = self._noted[0]
            self._store.record_call(call)
            self._noted.popleft()
