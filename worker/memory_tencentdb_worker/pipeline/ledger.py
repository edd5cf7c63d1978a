"""Every model call is written down, also the failed ones: what it was for, what it cost, how it ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from memory_tencentdb_worker.errors import LLMError, StoreError
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import Completion, CompletionRequest, ModelCall
from memory_tencentdb_worker.store.base import Store

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
                )
            )
            raise
        self._record(
            ModelCall(
                at=at,
                task=request.task,
                scope=request.scope,
                model=completion.model,
                tokens_in=completion.tokens_in,
                tokens_out=completion.tokens_out,
                cost_usd=completion.cost_usd,
                elapsed_ms=completion.elapsed_ms,
                outcome="ok",
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
