"""A real worker whose embedder hangs: recall gives what words find, within its deadline, and says who was late."""

from __future__ import annotations

import time
from pathlib import Path

from fake_openai import running
from processes import WorkerProcess

DEADLINE_MS = 1_000


def test_a_hung_embedder_costs_its_share_and_no_more(tmp_path: Path) -> None:
    with running() as endpoint:
        embedding = {
            "provider": "openai", "baseUrl": endpoint.url, "apiKey": "sk-test", "model": "fake-embedder",
            "dimensions": 64,
        }  # fmt: skip
        worker = WorkerProcess(tmp_path / "home", {"memory": {"embedding": embedding}})
        worker.start()
        try:
            message = worker.capture("The boiler was serviced in May", session="earlier")["message_ids"][0]
            assert worker.flush()["idle"]
            body = {"query": "when was the boiler serviced", "session_key": "now", "deadline_ms": DEADLINE_MS}
            whole = worker.post("/recall", body)
            assert whole["receipt"]["arms"]["vectors"]["state"] == "ok"
            endpoint.fail("hang", times=-1, task="embeddings", seconds=30)
            begun = time.monotonic()
            answer = worker.post("/recall", body)
            assert time.monotonic() - begun < 10, "the call hangs for thirty seconds"
            assert answer["receipt"]["arms"]["words"]["state"] == "ok"
            assert answer["receipt"]["arms"]["vectors"]["state"] in ("late", "failed")
            assert answer["receipt"]["elapsed_ms"] <= DEADLINE_MS
            assert [item["id"] for item in answer["items"]] == [item["id"] for item in whole["items"]]
            assert message in {source for item in answer["items"] for source in item["sources"]}
            endpoint.heal()
        finally:
            worker.stop()
