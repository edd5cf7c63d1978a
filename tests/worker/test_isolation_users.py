"""One user's memory and another's: no read path, file, log or metric shows what is not one's own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from processes import FAST_PIPELINE, WorkerProcess

USERS = ("", "Ann", "ann", "../Ann", "安'; drop table messages; --")
CANARIES = 20
THREADS = 10
FORGED = (
    "ANN",
    "ann ",
    "Ann/",
    "ａｎｎ",
    "an",
    "%",
    "*",
    "..",
    "' or '1'='1",
    "null",
    "ann\u200b",
    "Ann\u0301",
    "x" * 500,
)


def canary(user: int, number: int) -> str:
    return f"kanari{'abcde'[user]}q{number:02d}z"


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    home = tmp_path_factory.mktemp("isolation") / "home"
    process = WorkerProcess(home, {"memory": {"pipeline": FAST_PIPELINE}})
    process.start()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda number: speak(process, number), range(THREADS)))
    process.flush()
    yield process
    process.stop()


def speak(worker: WorkerProcess, number: int) -> None:
    """One thread: every user's share of canaries, in sessions of the same name, with a question between."""
    for which in range(number, CANARIES, THREADS):
        for user, user_id in enumerate(USERS):
            word = canary(user, which)
            text = f"My favourite plant is called {word}."
            worker.capture(text, f"Noted, {word}.", f"s{number}", user_id=user_id, turn_id=f"t{which}")
            answer = ask(worker, "/recall", query="favourite plant", session_key=f"s{number}", user_id=user_id)
            assert foreign(answer.text, user) == []


def ask(worker: WorkerProcess, path: str, **body: Any) -> Any:
    with worker.client() as client:
        return client.post(path, json=body)


def foreign(text: str, user: int | None) -> list[str]:
    """Canaries of others in a text; of anybody for None."""
    return [canary(other, n) for other in range(len(USERS)) for n in range(CANARIES)
            if other != user and canary(other, n) in text]  # fmt: skip


def answers(worker: WorkerProcess, user_id: str, query: str) -> Iterator[str]:
    for path, body in (
        ("/recall", {"query": query, "session_key": "s1", "max_tokens": 20_000}),
        ("/search/memories", {"query": query, "limit": 100}),
        ("/search/conversations", {"query": query, "limit": 100}),
        ("/search/conversations", {"query": query, "limit": 100, "session_key": "s1"}),
    ):
        answer = ask(worker, path, user_id=user_id, **body)
        assert answer.status_code in (200, 400, 422), answer.text
        yield answer.text
    for level in ("L0", "L1", "L2", "L3"):
        yield worker.get(f"/v1/inspect?level={level}&limit=500&user_id={quote(user_id, safe='')}").text


@pytest.mark.parametrize("user", range(len(USERS)), ids=map(repr, USERS))
def test_every_read_path_shows_a_user_the_own_canaries_and_nobody_elses(worker: WorkerProcess, user: int) -> None:
    seen = "".join(answers(worker, USERS[user], "favourite plant called"))
    assert foreign(seen, user) == []
    assert all(canary(user, number) in seen for number in range(CANARIES))
    for other in range(len(USERS)):
        if other != user:
            stolen = list(answers(worker, USERS[user], canary(other, 3)))
            assert foreign("".join(stolen), user) in ([], [canary(other, 3)])  # the question itself may come back
            assert f"called {canary(other, 3)}" not in "".join(stolen)


@pytest.mark.parametrize("forged", FORGED, ids=map(ascii, FORGED))
def test_forged_user_gets_nothing(worker: WorkerProcess, forged: str) -> None:
    assert foreign("".join(answers(worker, forged, "favourite plant called")), None) == []


def test_ids_of_others_resolve_to_nothing(worker: WorkerProcess) -> None:
    rows = worker.get("/v1/inspect?level=L1&limit=500&user_id=Ann").json()["data"]
    ids = [row.get("id") or row.get("record_id") for row in rows][:5]
    assert ids
    for id in ids:
        assert worker.get(f"/v1/why/{id}?user_id=Ann").status_code == 200
        for other in ("", "ann", "../Ann"):
            path = f"/v1/why/{id}?user_id={quote(other, safe='')}"
            assert worker.get(path).status_code == 404, other
            refused = ask(worker, "/v1/edit", id=id, content="The user likes kanari.", user_id=other)
            assert refused.status_code == 404, other
            refused = ask(worker, "/v1/forget", id=id, user_id=other, yes=True)
            assert refused.status_code == 404, other


def test_files_of_a_user_hold_that_user_alone(worker: WorkerProcess) -> None:
    data = worker.home / "data"
    folders = {data / "users" / hashlib.sha256(one.encode()).hexdigest()[:20]: n for n, one in enumerate(USERS) if one}
    assert {path for path in (data / "users").iterdir() if path.is_dir()} == set(folders)
    seen = set()
    for path in (path for path in data.rglob("*") if path.is_file() and not path.name.startswith("memory.db")):
        if ".backup" in path.parts:
            continue  # whole databases, for the owner of the data directory
        owner = next((n for folder, n in folders.items() if folder in path.parents), 0)
        text = path.read_bytes().decode("utf-8", "replace")
        assert foreign(text, owner) == [], path
        if canary(owner, 0) in text:
            seen.add(owner)
    assert seen == set(range(len(USERS)))


def test_logs_metrics_and_descriptions_hold_no_words_and_no_names(worker: WorkerProcess) -> None:
    texts = [worker.get(path).text for path in ("/v1/status", "/health", "/openapi.json", "/v1/calls", "/v1/parked")]
    texts += [path.read_text("utf-8", "replace") for path in _logs(worker.home)]
    assert texts
    for text in texts:
        assert foreign(text, None) == []
        assert "drop table" not in text


def _logs(home: Path) -> list[Path]:
    return [path for path in (home / "logs").rglob("*") if path.is_file()]
