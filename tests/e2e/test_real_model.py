"""The whole pipeline with a real, small and imperfect model: the form of what it leaves behind, not its quality.

Runs only where MEMORY_TENCENTDB_TEST_MODEL_URL names an OpenAI-compatible endpoint, such as llama-server with a model
of one or two billion parameters; MEMORY_TENCENTDB_TEST_MODEL is the model's name there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory_tencentdb_worker.llm.empty_talk import says_nothing
from planted import kept_atoms
from processes import WorkerProcess

URL = os.environ.get("MEMORY_TENCENTDB_TEST_MODEL_URL", "")
CHATS = (
    ("My name is Tove and I repair pianos in Malmö.", "Nice to meet you, Tove."),
    ("Thanks, that is all.", "You are welcome."),
    ("I am allergic to bee stings. My son Elias is not.", "I will be careful."),
    ("On 2026-04-12 we moved to a flat near the harbour.", "How is the view?"),
    ("我叫周砚，在厦门做海洋生物研究。", "你好，周砚。"),
    ("今天天气不错。", "是的。"),
    ("我不吃海鲜，以后别推荐海鲜餐厅。", "好的。"),
    ("我弟弟下个月去挪威留学。", "祝他顺利。"),
)
PATIENCE_SECONDS = 1_200


@pytest.mark.skipif(not URL, reason="MEMORY_TENCENTDB_TEST_MODEL_URL names no model")
def test_a_small_real_model_leaves_nothing_behind_that_has_no_source(tmp_path: Path) -> None:
    model = {"baseUrl": URL, "apiKey": "none", "model": os.environ.get("MEMORY_TENCENTDB_TEST_MODEL", "local")}
    worker = WorkerProcess(tmp_path / "home", {"llm": {**model, "timeoutMs": 300_000}})
    worker.start()
    try:
        for number, (user, assistant) in enumerate(CHATS, start=1):
            worker.capture(user, assistant, session=f"chat-{number}", turn_id=f"turn-{number}")
        flushed = worker.flush(PATIENCE_SECONDS)
        status = worker.get("/v1/status").json()
        kept = kept_atoms(Path(worker.endpoint["data_dir"]))
        proofs = [worker.get(f"/v1/why/{atom.id}").json() for atom in kept]
    finally:
        worker.stop()
    assert flushed["idle"] or flushed["jobs_parked"], flushed
    assert status["counts"]["turns"] == len(CHATS)
    assert status["calls"]["tokens_in"] > 0
    assert kept, "not one fact of eight chats"
    for atom, proof in zip(kept, proofs, strict=True):
        assert atom.turns <= set(range(1, len(CHATS) + 1))
        assert atom.type in ("persona", "episodic", "instruction")
        assert not says_nothing(atom.content)
        assert all(message["hash_ok"] for message in proof["messages"])
