"""A day's budget stops what costs money and loses nothing."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from pathlib import Path

from pydantic import SecretStr

from fake_openai import running
from layer_parts import START, capture
from memory_tencentdb_worker.config.model import BudgetSettings, Config, Embedding, Memory
from memory_tencentdb_worker.embedding.openai_http import OpenAIEmbedder
from memory_tencentdb_worker.models import EMBEDDING_TASK, EmbeddingSpace, ModelCall
from memory_tencentdb_worker.pipeline.budget import DayBudget, costs_money
from memory_tencentdb_worker.pipeline.ledger import EmbeddingLedger
from memory_tencentdb_worker.service.reasons import kind_of
from memory_tencentdb_worker.store.sqlite import open_store
from pipeline_parts import Clock, running_pipeline, wait_for

HOUR = 3_600_000
DAY = 24 * HOUR


def limited(tokens: int = 0, cost_usd: float = 0.0) -> Config:
    budget = BudgetSettings(tokens_per_day=tokens, cost_usd_per_day=cost_usd)
    return Config(memory=Memory(budget=budget))


def spend(tokens: int = 0, cost_usd: float = 0.0, *, at: int = START, task: str = "l1-extraction") -> ModelCall:
    return ModelCall(at, task, "", "m", tokens, 0, cost_usd, 1, "ok")


def spent_before(data_dir: Path, call: ModelCall) -> None:
    """Before the pipeline looks for the first time."""
    store = open_store(data_dir, START)
    store.record_call(call)
    store.close()


def test_used_up_budget_pauses_model_work_until_the_next_local_day(tmp_path: Path) -> None:
    config = limited(tokens=1_000)
    spent_before(tmp_path / "data", spend(tokens=1_000))
    with running() as fake, running_pipeline(tmp_path / "data", url=fake.url, config=config) as it:
        capture(it.store, config, "I live in Porto.")
        it.pipeline.wake()
        wait_for(it.pipeline.pause_reasons, "the pause")
        reason = it.pipeline.pause_reasons()[0]
        assert (reason.code, kind_of(reason.code).state) == ("budget_tokens", "paused")
        assert "2026-01-02" in reason.message
        assert it.store.job_counts(it.clock()).retrying == 0
        assert fake.requests == []
        it.clock.now += DAY
        it.pipeline.wake()
        wait_for(lambda: it.store.counts().atoms, "the extraction of the next day")
        assert it.pipeline.pause_reasons() == []


def test_raised_budget_ends_the_pause_at_once(tmp_path: Path) -> None:
    config = limited(cost_usd=1.0)
    spent_before(tmp_path / "data", spend(cost_usd=1.0))
    with running() as fake, running_pipeline(tmp_path / "data", url=fake.url, config=config) as it:
        capture(it.store, config, "I live in Porto.")
        it.pipeline.wake()
        wait_for(it.pipeline.pause_reasons, "the pause")
        it.pipeline.budget.use(BudgetSettings(cost_usd_per_day=2.0))
        it.pipeline.wake()
        wait_for(lambda: it.store.counts().atoms, "the extraction")


def test_offline_rules_cost_nothing_and_are_never_paused(tmp_path: Path) -> None:
    config = limited(tokens=10)
    spent_before(tmp_path / "data", spend(tokens=10))
    with running_pipeline(tmp_path / "data", config=config) as it:
        capture(it.store, config, "I live in Porto.")
        it.pipeline.wake()
        wait_for(lambda: it.store.counts().atoms, "the rules")


def test_yesterday_in_the_configured_zone_does_not_count(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data", START)
    east = timezone(timedelta(hours=8))  # there, the day began at 16:00 UTC
    budget = DayBudget(store, BudgetSettings(tokens_per_day=10), east, Clock(START))
    store.record_call(spend(tokens=10, at=START - 9 * HOUR))
    assert budget.look() is None
    store.record_call(spend(tokens=10, at=START - 7 * HOUR))
    pause = budget.look()
    assert pause is not None
    assert pause.until == START + 16 * HOUR
    store.close()


def test_embedding_counts_only_where_it_costs_money(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data", START)
    budget = DayBudget(store, BudgetSettings(tokens_per_day=10), UTC, Clock(START))
    store.record_call(spend(tokens=10, task=EMBEDDING_TASK))
    assert budget.look() is None
    budget.counts_embedding = True
    assert budget.look() is not None
    space = EmbeddingSpace("openai", "m", 8)
    assert [costs_money(space, url) for url in ("https://api.example.com/v1", "http://127.0.0.1:1/v1")] == [True, False]
    assert not costs_money(EmbeddingSpace("local", "m", 8), "")
    store.close()


def test_requests_to_an_embedding_endpoint_stand_in_the_ledger(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data", START)
    ledger = EmbeddingLedger(store, lambda: START)
    with running(dim=8) as fake:
        settings = Embedding(
            provider="openai", base_url=fake.url, api_key=SecretStr("k"), model="letters", dimensions=8
        )
        embedder = OpenAIEmbedder(settings, ledger.note)
        embedder.embed(["one text", "another"], kind="passage", timeout_seconds=5)
        fake.fail("http", status=400)
        embedder.embed(["refused once"], kind="query", timeout_seconds=5)
        embedder.close()
    assert store.calls_since(0).calls == 0  # a question must not wait for a write
    ledger.settle()
    (row,) = store.call_sums(0, START + 1)
    assert (row.task, row.model, row.texts >= 3, row.failed) == (EMBEDDING_TASK, "letters", True, 1)
    assert row.tokens_in > 0
    store.close()
