"""Two hundred turns read by rules, eighty by a model: every line of atoms, scenes, persona and recall leads to
messages, and a turn can be followed through the layers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import fake_openai
from doctor_home import codes, database, examine, fill_home
from planted import turns
from processes import WorkerProcess

QUERIES = ("What am I allergic to?", "Where do I live?", "我住在哪里？", "What is my job?", "what should you never do")
ID = re.compile(r"\b(?:m|l0)_[0-9a-f]{16}\b")


@pytest.fixture(scope="module", params=["rules", "model"])
def worker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    home = tmp_path_factory.mktemp("proof") / "home"
    with fake_openai.running() as endpoint:
        llm = {"baseUrl": endpoint.url, "apiKey": "sk-test", "model": "fake-model"}
        by_model = request.param == "model"
        process = fill_home(home, turns(80 if by_model else 200), llm if by_model else None)
        yield process
        process.stop()


def rows(worker: WorkerProcess, layer: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = worker.get(f"/v1/inspect?level={layer}&limit=1000").json()["data"]
    return answer


def lines_in_use(worker: WorkerProcess) -> list[tuple[str, list[str]]]:
    """Of the newest persona and of every active scene: text and sources."""
    with database(worker.home) as connection:
        bodies = connection.execute(
            "select sections from scene_revisions where newest = 1 and status = 'active' union all"
            " select * from (select sections from persona_revisions order by revision desc limit 1)"
        ).fetchall()
    return [(text, sources) for (body,) in bodies for _, lines in json.loads(body) for text, sources in lines]


def test_every_line_resolves_to_messages_whose_text_is_what_it_was(worker: WorkerProcess) -> None:
    named = {row["id"] for row in rows(worker, "L1")}
    lines = lines_in_use(worker)
    assert len(named) > 30
    assert len(lines) > 30
    assert all(sources for _, sources in lines)
    named |= {source for _, sources in lines for source in sources} | {row["id"] for row in rows(worker, "L2")}
    named.add("persona")
    recalled = [worker.post("/recall", {"query": query, "session_key": "other"})["context"] for query in QUERIES]
    shown = [line for context in recalled for line in context.splitlines() if line.startswith("- [")]
    assert shown
    assert all(ID.search(line) for line in shown)
    named |= {id for line in shown for id in ID.findall(line)}
    with worker.client() as client:
        for id in sorted(named):
            answer = client.get(f"/v1/why/{id}")
            assert answer.status_code == 200, id
            messages = answer.json()["messages"]
            assert messages, id
            assert all(message["hash_ok"] and message["text"] for message in messages), id


def test_the_doctor_finds_nothing_wrong_beside_the_running_worker(
    worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TDAI_EMBEDDING_PROVIDER", "none")
    for name in ("TDAI_DATA_DIR", "HERMES_HOME", "MEMORY_TENCENTDB_HOME"):
        monkeypatch.delenv(name, raising=False)
    before = worker.get("/v1/status").json()["counts"]
    report = examine(worker.home, "--repair")
    assert report["worker"]
    assert not codes(report), report["findings"]
    assert report["repaired"] == []
    assert worker.get("/v1/status").json()["counts"] == before
    assert not (worker.home / "data" / "users").exists() or not list((worker.home / "data" / "users").iterdir())


def test_a_turn_is_followed_through_the_layers(worker: WorkerProcess, request: pytest.FixtureRequest) -> None:
    answer = worker.get("/v1/trace/turn-1").json()
    (turn,) = answer["turns"]
    assert [message["role"] for message in turn["messages"]] == ["user", "assistant"]
    assert all(message["hash_ok"] for message in turn["messages"])
    assert [(job["layer"], job["state"]) for job in turn["jobs"]] == [("L1", "done"), ("L2", "done"), ("L3", "done")]
    assert any("Oddvik" in atom["content"] for atom in turn["atoms"])
    assert any("Oddvik" in line for line in turn["persona"]["lines"])
    tasks = {call["task"] for call in turn["calls"]}
    by_model = "model" in request.node.callspec.id
    assert tasks == ({"l1-extraction", "l2-scenes", "l3-persona"} if by_model else set())
    late = [worker.get(f"/v1/trace/turn-{number}").json()["turns"][0] for number in range(60, 80)]
    assert any(turn["scenes"] for turn in late)
    assert worker.get("/v1/trace/no-such-turn").status_code == 404
