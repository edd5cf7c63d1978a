"""What models have cost, by layer, model and day; and what they would cost."""

from __future__ import annotations

from datetime import timedelta, timezone
from pathlib import Path

import pytest

from layer_parts import START, ScriptedLLM
from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.models import CallSum, Completion, CompletionRequest, ModelCall, TextVolume
from memory_tencentdb_worker.pipeline.ledger import LedgerLLM
from memory_tencentdb_worker.service.calls import CallsWanted, call_report
from memory_tencentdb_worker.service.estimate import estimate
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store

HOUR = 3_600_000
EAST = timezone(timedelta(hours=8))


def store_with_calls(path: Path) -> SqliteStore:
    store = open_store(path, START)
    for at, task, model, outcome in (
        (START, "l1-extraction", "small", "ok"),
        (START + HOUR, "l1-reconcile", "small", "quota"),
        (START + 17 * HOUR, "l3-persona", "large", "ok"),
    ):
        store.record_call(ModelCall(at, task, "", model, 100, 10, 0.5, 40, outcome))
    return store


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("layer", {"L1": 2, "L3": 1}),
        ("task", {"l1-extraction": 1, "l1-reconcile": 1, "l3-persona": 1}),
        ("model", {"large": 1, "small": 2}),
        ("day", {"2026-01-01": 2, "2026-01-02": 1}),  # the owner's days: 16:00 UTC is midnight
    ],
)
def test_calls_are_added_up_by(tmp_path: Path, by: str, expected: dict[str, int]) -> None:
    store = store_with_calls(tmp_path / "data")
    report = call_report(CallsWanted(by=by), store, EAST, START + 40 * HOUR)
    assert {row["key"]: row["calls"] for row in report["rows"]} == expected
    total = report["total"]
    assert (total["calls"], total["failed"], total["tokens_in"], total["cost_usd"]) == (3, 1, 300, 1.5)
    store.close()


def test_window_leaves_out_what_lies_outside(tmp_path: Path) -> None:
    store = store_with_calls(tmp_path / "data")
    wanted = CallsWanted(since="2026-01-01T09:00:00+08:00", until="2026-01-02", by="task")
    report = call_report(wanted, store, EAST, START + 40 * HOUR)
    assert [row["key"] for row in report["rows"]] == ["l1-reconcile"]
    with pytest.raises(InvalidInput):
        call_report(CallsWanted(by="colour"), store, EAST, START)
    store.close()


def test_tokens_that_an_endpoint_does_not_name_are_estimated_and_marked(tmp_path: Path) -> None:
    class Silent(ScriptedLLM):
        def complete(self, request: CompletionRequest) -> Completion:
            return Completion("an answer", "stop", "silent", 0, 0, 0.0, 1)

    store = open_store(tmp_path / "data", START)
    LedgerLLM(Silent(), store, lambda: START).complete(CompletionRequest("l1-extraction", "be brief", "hello", 9, 1.0))
    (row,) = store.call_sums(0, START + 1)
    assert row.estimated == 1
    assert row.tokens_in > 0
    store.close()


def test_estimate_follows_past_calls_of_the_model_where_there_are_enough() -> None:
    volumes = [TextVolume("s", "", 200, 20_000, 20_000)]
    past = [CallSum("l1-extraction", "small", 10, 0, 0, 20_000, 4_000, 0.24, 100, 0)]
    guessed, known = estimate(volumes, past, "other"), estimate(volumes, past, "small")
    assert guessed.cost_usd is None
    assert known.cost_usd is not None
    assert known.calls == guessed.calls > 10
    assert known.tokens_in != guessed.tokens_in
    assert estimate(volumes, past, "").calls == 0


def test_estimate_grows_with_what_is_to_be_read() -> None:
    small, large = (estimate([TextVolume("s", "", n, n * 80, n * 80)], [], "m") for n in (100, 1_000))
    assert 5 * small.tokens_in < large.tokens_in < 20 * small.tokens_in
