"""An answer such as "ok" stands in other words too: it proves nothing and costs no waiting turn."""

from __future__ import annotations

from pathlib import Path

from memory_tencentdb_worker.store.forget_files import telling_pieces
from processes import WorkerProcess


def test_a_short_answer_is_no_proof_that_the_forgotten_turn_is_still_there(tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path / "home")
    worker.start()
    try:
        worker.capture("An innocent turn about herons.", "ok", "s1")
        result = worker.post("/v1/forget", {"session": "s1", "dry_run": False})
    finally:
        worker.stop()
    assert result["plan"]["messages"] == 2
    assert result["proof"]["hits"] == 0


def test_a_short_text_is_looked_for_only_when_it_was_asked_for() -> None:
    assert telling_pieces(["ok", "好的", "My locker is 4711"], "") == ["My locker is 4711"]
    assert telling_pieces(["ok"], "ok") == ["ok"]
    assert telling_pieces(["我住在上海"], "") == ["我住在上海"]
