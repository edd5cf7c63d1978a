"""The main job through real parts: capture, L1, L2, L3, recall, and the proof of where it came from."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb.provider import TencentDBMemoryProvider
from processes import WorkerProcess

PERSON = [
    ("My name is Ada Okafor and I work as a bridge engineer in Porto.", "Nice to meet you, Ada.", "Okafor"),
    ("I am allergic to hazelnuts, so please remember that.", "I will keep it in mind.", "hazelnuts"),
    ("My sister Ngozi lives in Lagos and she plays the oboe.", "Lovely.", "Ngozi"),
    ("I prefer answers with code in Rust.", "Understood.", "Rust"),
    ("Always quote distances in metric units.", "Will do.", "metric"),
    ("On 2026-03-05 I signed the contract for the Douro viaduct.", "Congratulations!", "Douro"),
    ("I drive a green Renault 4 from 1986.", "A classic.", "Renault"),
    ("My favourite tea is Gyokuro.", "Good choice.", "Gyokuro"),
    ("We adopted a cat called Zephyrine.", "Welcome, Zephyrine.", "Zephyrine"),
    ("I never drink coffee after 15:00.", "Noted.", "coffee"),
    ("我叫林晓雨，在杭州做数据库研发。", "你好，晓雨。", "林晓雨"),
    ("我对花生过敏。", "我记住了。", "花生"),
    ("我喜欢爬山和摄影。", "很好的爱好。", "摄影"),
    ("以后请用中文回答我。", "好的。", "中文"),
    ("我的女儿叫小满，今年六岁。", "真可爱。", "小满"),
    ("我计划在2026年5月4日去敦煌旅行。", "祝你旅途愉快。", "敦煌"),
    ("我不吃香菜。", "好的。", "香菜"),
    ("我最喜欢的作家是汪曾祺。", "他的散文很美。", "汪曾祺"),
    ("我们公司在用Kubernetes部署服务。", "了解。", "Kubernetes"),
    ("我住在西湖区文三路。", "好的。", "文三路"),
    ("我用ThinkPad写Python代码。", "好。", "ThinkPad"),
    ("My 妈妈 lives in 苏州 and I call her every Sunday.", "Sweet.", "苏州"),
    ("I am learning 围棋 with my neighbour Kaspar.", "Have fun.", "Kaspar"),
    ("我在GitHub上的账号是quokka-42。", "记下了。", "quokka-42"),
    ("My project is called 青鸟-relay and it ships in April.", "Great name.", "青鸟"),
    ("I play 二胡 in a band named Moonlit Barge.", "Wow.", "二胡"),
    ("我的meeting一般在周三下午。", "好的。", "周三"),
    ("I bought a Leica Q3 for my trip to 大理.", "Enjoy.", "Leica"),
    ("我的email是lin.xiaoyu@example.org。", "记下了。", "lin.xiaoyu@example.org"),
    ("I live with my partner Teodora in a house by the river.", "Nice.", "Teodora"),
]


def query_for(marker: str) -> str:
    return f"{marker}?"


def why(worker: WorkerProcess, memory_id: str) -> dict[str, Any]:
    answer = worker.get(f"/v1/why/{memory_id}")
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_thirty_turns_in_two_languages_are_found_again_with_date_id_and_proof(worker: WorkerProcess) -> None:
    for number, (user, assistant, _) in enumerate(PERSON):
        worker.capture(user, assistant, session=f"chat-{number // 10}", turn_id=f"turn-{number}")
    flushed = worker.flush()
    assert flushed["idle"], flushed
    for _, _, marker in PERSON:
        found = worker.post("/search/memories", {"query": query_for(marker), "limit": 5})
        hits = [item for item in found["items"] if marker.lower() in item["text"].lower()]
        assert hits, f"{marker}: {found['results']}"
        recalled = worker.post("/recall", {"query": query_for(marker), "session_key": "tomorrow"})
        line = next((line for line in recalled["context"].splitlines() if marker.lower() in line.lower()), "")
        assert line, f"{marker}: {recalled['context']}"
        proof = why(worker, hits[0]["id"])
        assert proof["messages"], proof
        assert all(message["hash_ok"] for message in proof["messages"])
        assert any(marker.lower() in message["text"].lower() for message in proof["messages"])
        lines = [line for line in recalled["prepend_context"].splitlines() if line.startswith("- ")]
        assert lines
        assert all(re.search(r"\d{4}-\d{2}-\d{2}", line) for line in lines)


def test_a_fact_rises_through_every_layer_and_each_line_leads_back_to_what_was_said(
    worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "My name is Quillon Vastergard and I work as a lighthouse keeper."
    captured = worker.capture(said, "Hello Quillon.", session="first-day")
    assert worker.flush()["idle"]
    data = Path(worker.endpoint["data_dir"])
    assert "Vastergard" in "".join(
        path.read_text(encoding="utf-8") for path in (data / "conversations").glob("*.jsonl")
    )
    assert "Vastergard" in "".join(path.read_text(encoding="utf-8") for path in (data / "records").glob("*.jsonl"))
    scene_files = list((data / "scene_blocks").glob("*.md"))
    assert any("Vastergard" in path.read_text(encoding="utf-8") for path in scene_files)
    assert "Vastergard" in (data / "persona.md").read_text(encoding="utf-8")
    monkeypatch.setenv("TDAI_DATA_DIR", str(data))
    provider = TencentDBMemoryProvider()
    provider.initialize("second-day", hermes_home=str(worker.home.parent / "hermes"), platform="cli")
    try:
        assert "Vastergard" in provider.system_prompt_block()
        text = provider.prefetch("What is my job, does Vastergard ring a bell?")
        assert "Vastergard" in text
    finally:
        provider.shutdown()
    for memory_id in [item["id"] for item in worker.post("/search/memories", {"query": "Vastergard"})["items"]]:
        assert [message["id"] for message in why(worker, memory_id)["messages"]] == [captured["message_ids"][0]]
    for name in ["persona", *[path.stem for path in scene_files]]:
        assert any(message["text"] == said for message in why(worker, name)["messages"])


def test_kill_between_capture_and_extraction_loses_nothing_and_doubles_nothing(worker: WorkerProcess) -> None:
    turns = [f"My secret word number {number} is marker{number}word." for number in range(8)]
    for number, text in enumerate(turns):
        worker.capture(text, session="s", turn_id=f"t{number}")
        if number == 3:
            worker.kill()
            worker.start()
    worker.kill()
    worker.start()
    for number, text in enumerate(turns):
        assert worker.capture(text, session="s", turn_id=f"t{number}")["duplicate"]
    assert worker.flush()["idle"]
    for number in range(8):
        found = worker.post("/search/conversations", {"query": f"marker{number}word", "limit": 10})
        assert len([item for item in found["items"] if f"marker{number}word" in item["text"]]) == 1
        atoms = worker.post("/search/memories", {"query": f"marker{number}word", "limit": 10})
        assert len([item for item in atoms["items"] if f"marker{number}word" in item["text"]]) == 1
    database = Path(worker.endpoint["data_dir"]) / "memory.db"
    assert worker.stop() == 0
    assert not database.with_name("memory.db-wal").exists() or database.with_name("memory.db-wal").stat().st_size == 0
    with sqlite3.connect(database) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
