"""A real worker, its real lane, and a model endpoint that misbehaves: what a person sees, and what a person can do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine
from fake_openai import FakeEndpoint, running
from processes import FAST_PIPELINE, WorkerProcess

PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def endpoint() -> Iterator[FakeEndpoint]:
    with running() as fake:
        yield fake


@pytest.fixture(scope="module")
def shared_worker(endpoint: FakeEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """One for all tests of this file: a lane takes seconds to start."""
    config = {
        "llm": {"baseUrl": endpoint.url, "model": "fake-model", "apiKey": "sk-test", "timeoutMs": 2000},
        "memory": {"pipeline": FAST_PIPELINE},
    }
    worker = WorkerProcess(tmp_path_factory.mktemp("endpoints") / "home", config)
    worker.start()
    yield worker
    assert worker.stop() == 0


@pytest.fixture
def worker(shared_worker: WorkerProcess, endpoint: FakeEndpoint) -> Iterator[WorkerProcess]:
    yield shared_worker
    endpoint.heal()
    assert shared_worker.flush()["idle"]


def status(worker: WorkerProcess) -> dict[str, Any]:
    document: dict[str, Any] = worker.get("/v1/status").json()
    return document


def wait_for(condition: Callable[[], object], what: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.05)


def found(worker: WorkerProcess, text: str) -> list[str]:
    body = {"query": text, "limit": 10}
    return [item["text"] for item in worker.post("/search/memories", body)["items"] if text in item["text"]]


def reasons(worker: WorkerProcess) -> dict[str, dict[str, Any]]:
    return {reason["code"]: reason for reason in status(worker)["reasons"]}


@pytest.mark.parametrize(
    ("http_status", "code", "reason"),
    [(402, "payment_required", "llm_quota"), (404, "model_not_found", "llm_model_not_found")],
)
def test_a_refused_model_pauses_and_is_named_and_a_flush_after_the_repair_does_the_rest(
    worker: WorkerProcess, endpoint: FakeEndpoint, http_status: int, code: str, reason: str
) -> None:
    endpoint.fail("http", times=-1, status=http_status, code=code, message=f"planned {code}")
    worker.capture(f"I keep {http_status} bees.", session=f"s{http_status}")
    wait_for(lambda: status(worker)["state"] == "paused", "the state")
    shown = reasons(worker)[reason]
    assert f"planned {code}" in shown["message"]
    assert endpoint.url in shown["message"]
    assert "fake-model" in shown["message"]
    assert shown["since"]
    assert shown["action"]
    assert worker.get("/health").json()["state"] == "paused"

    calls = len(endpoint.requests)
    worker.capture(f"I also keep {http_status} goats.", session=f"s{http_status}")
    time.sleep(0.5)
    assert len(endpoint.requests) == calls, "nobody asks a paused endpoint"
    endpoint.heal()
    assert worker.flush()["idle"]
    assert status(worker)["state"] == "ok"
    assert len(found(worker, f"keep {http_status} bees")) == 1
    assert len(found(worker, f"keep {http_status} goats")) == 1


def test_the_command_line_asks_a_paused_endpoint_once_and_says_what_holds_work_up(
    worker: WorkerProcess, endpoint: FakeEndpoint
) -> None:
    endpoint.fail("http", times=-1, status=402)
    worker.capture("I keep a log book.", session="cli")
    wait_for(lambda: status(worker)["state"] == "paused", "the state")
    calls = len(endpoint.requests)
    told = CommandLine(worker.home).at_home("flush", "--wait", "6", "--json")
    assert (told.code, told.document["idle"]) == (5, False)
    assert told.document["reasons"][0]["code"] == "llm_quota"
    assert len(endpoint.requests) == calls + 1, "one probe a flush, however many slices its wait has"


def test_a_hanging_model_is_left_at_its_deadline_and_tried_again(worker: WorkerProcess, endpoint: FakeEndpoint) -> None:
    endpoint.fail("hang", times=1, task="llm", seconds=30)
    worker.capture("I collect old maps.", session="hang")
    wait_for(lambda: status(worker)["jobs"]["failing"], "the failed try")
    (failing,) = status(worker)["jobs"]["failing"]
    assert (failing["kind"], failing["session_key"], failing["attempts"]) == ("l1", "hang", 1)
    assert failing["error"]
    assert failing["next_at"]
    assert status(worker)["state"] == "lagging"
    assert worker.flush()["idle"]
    assert len(found(worker, "old maps")) == 1


def test_parked_work_is_done_when_the_model_is_mended_and_a_person_asks(
    worker: WorkerProcess, endpoint: FakeEndpoint
) -> None:
    command = CommandLine(worker.home)
    for number, ask in enumerate(("command", "http")):
        endpoint.fail("prose", times=2, task="l1-extraction")
        worker.capture(f"I restore {number} clocks.", session=f"parked-{number}")
        wait_for(lambda: worker.get("/v1/parked").json()["parked"], "the batch to be parked")
        (parked,) = worker.get("/v1/parked").json()["parked"]
        assert (parked["session_key"], bool(parked["reason"])) == (f"parked-{number}", True)
        assert status(worker)["jobs"]["parked"] == 1
        assert worker.flush()["jobs_parked"] == 1, "what was parked is not tried again unasked"
        if ask == "command":
            done = command.at_home("flush", "--parked", "--wait", "30", "--json")
            assert (done.code, done.document["idle"], done.document["jobs_parked"]) == (0, True, 0)
        else:
            answer = worker.post("/v1/flush", {"parked": True, "wait_seconds": 30})
            assert (answer["idle"], answer["jobs_parked"]) == (True, 0)
        assert worker.get("/v1/parked").json()["parked"] == []
        assert len(found(worker, f"restore {number} clocks")) == 1


def test_captures_and_recalls_do_not_wait_for_a_model_that_hangs(worker: WorkerProcess, endpoint: FakeEndpoint) -> None:
    endpoint.fail("hang", times=1, task="llm", seconds=30)
    worker.capture("I sail on Sundays.", session="wait")
    wait_for(lambda: status(worker)["jobs"]["running"], "the call")
    slow: list[float] = []

    def use(number: int) -> None:
        begun = time.monotonic()
        worker.capture(f"I have {number} sails.", session=f"wait-{number}")
        worker.post("/recall", {"query": "sails", "session_key": f"wait-{number}"})
        slow.append(time.monotonic() - begun)

    callers = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert len(slow) == 4
    assert max(slow) < 2.0, "the length of the hanging call"
    wait_for(lambda: status(worker)["jobs"]["failing"], "the end of the call")


@pytest.fixture
def hostless(tmp_path: Path) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(tmp_path / "home", {"memory": {"pipeline": FAST_PIPELINE}})
    yield worker
    worker.stop()


def test_what_the_hosts_model_read_is_not_left_to_rules_after_a_restart(
    hostless: WorkerProcess, endpoint: FakeEndpoint
) -> None:
    offer = {"base_url": endpoint.url, "api_key": "sk-host-0123456789", "model": "fake-model", "provider": "custom"}
    hello = {"protocol": 1, "version": "0", "client": "test", "host_model": offer}
    hostless.start()
    hostless.post("/v1/hello", hello)
    assert hostless.stop() == 0
    hostless.start()
    hostless.capture("I live in Lisbon.")
    wait_for(lambda: status(hostless)["state"] == "paused", "the pause")
    shown = reasons(hostless)["llm_waiting_for_host_model"]
    assert "Hermes" in shown["action"]
    assert status(hostless)["counts"]["atoms"] == 0
    assert hostless.flush(20)["idle"]
    assert status(hostless)["counts"]["atoms"] == 1
    assert b"sk-host" not in (hostless.home / "data" / "memory.db").read_bytes()
