"""By rules, a move ends the former home and makes a present one, which a question for it finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from processes import WorkerProcess


@pytest.mark.parametrize(
    ("former", "moved", "question", "home"),
    [
        ("I live in Porto.", "I moved to Lisbon.", "where do I live?", "The user lives in Lisbon now."),
        ("我住在杭州。", "我搬到了苏州。", "我住在哪里？", "用户现在住在苏州。"),
    ],
)
def test_who_moved_lives_at_the_new_place_and_no_longer_at_the_old_one(
    tmp_path: Path, former: str, moved: str, question: str, home: str
) -> None:
    worker = WorkerProcess(tmp_path / "home", {})
    worker.start()
    try:
        for session, text in (("a", former), ("b", moved)):
            worker.capture(text, session=session)
            worker.post("/v1/flush", {"wait_seconds": 20})
        items = worker.post("/search/memories", {"query": question})["items"]
        contents = [item["text"] for item in items]
        assert contents[0] == home
        assert former.rstrip(".。")[-2:] not in "".join(contents)
        assert len(items[0]["sources"]) == 2
        assert home in worker.post("/recall", {"query": question, "session_key": "c"})["context"]
    finally:
        worker.stop()
