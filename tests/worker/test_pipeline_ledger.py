"""Every model call stands in the ledger, also the failed ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from layer_parts import START, ScriptedLLM
from memory_tencentdb_worker.errors import LLMTransient
from memory_tencentdb_worker.models import CompletionRequest
from memory_tencentdb_worker.pipeline.ledger import LedgerLLM
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store

REQUEST = CompletionRequest("l1-extraction", "system", "user", 100, 1.0, scope="ada")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = open_store(tmp_path / "data", START)
    yield opened
    opened.close()


def test_calls_are_counted_with_their_cost(store: SqliteStore) -> None:
    ledger = LedgerLLM(ScriptedLLM(), store, lambda: START)
    ledger.complete(REQUEST)
    ledger.complete(REQUEST)
    totals = store.calls_since(START)
    assert (totals.calls, totals.tokens_in, totals.tokens_out) == (2, 20, 10)
    assert store.calls_since(START + 1).calls == 0


def test_failed_call_is_written_down_and_still_raised(store: SqliteStore) -> None:
    llm = ScriptedLLM()
    llm.script("l1-extraction", LLMTransient("busy"))
    with pytest.raises(LLMTransient):
        LedgerLLM(llm, store, lambda: START).complete(REQUEST)
    assert store.calls_since(START).calls == 1


def test_answer_is_kept_when_the_ledger_cannot_be_written(store: SqliteStore) -> None:
    store.close()
    assert LedgerLLM(ScriptedLLM(), store, lambda: START).complete(REQUEST).finish_reason == "stop"
