"""An hour with a model that cannot be had, in simulated time, over a real store and real HTTP: few calls, no turn lost,
and afterwards everything is worked off in order, one call at a time (traps B17, B35, B62, B81, B135)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from fake_openai import FakeEndpoint, running
from layer_parts import capture
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.models import Atom, Layer, Page
from pipeline_parts import HttpLLM, Stepped, stepped

CONFIG = Config()
TURNS = 50
SESSIONS = 5
MINUTE = 60_000


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with running() as fake:
        yield fake


def fact(number: int) -> str:
    return f"I own {number} lighthouses."


def live_for_an_hour(run: Stepped) -> None:
    """Fifty turns in an hour, the schedule asked at every minute."""
    said = 0
    for minute in range(60):
        while said * 60 <= minute * TURNS and said < TURNS:
            capture(run.store, CONFIG, fact(said), now=run.clock(), session_key=f"s{said % SESSIONS}")
            said += 1
        run.run()
        run.clock.now += MINUTE
    assert said == TURNS


def contents(run: Stepped) -> list[str]:
    rows = run.store.list_rows(Layer.L1, Page(limit=500, ascending=True), scope="").rows
    return [row.content for row in rows if isinstance(row, Atom)]


def assert_every_fact_is_there_once(run: Stepped) -> None:
    known = contents(run)
    assert [sum(f" {number} lighthouses" in content for content in known) for number in range(TURNS)] == [1] * TURNS


@pytest.mark.parametrize(
    ("status", "code", "message", "reason"),
    [
        (402, "payment_required", "no money", "quota"),
        (401, "invalid_api_key", "Incorrect API key provided.", "unauthorised"),
        (403, "forbidden", "not for you", "unauthorised"),
        (404, "model_not_found", "The model does not exist", "model_not_found"),
        (429, "insufficient_quota", "You exceeded your current quota: insufficient_quota", "quota"),
    ],
)
def test_an_hour_of_refusals_costs_a_dozen_calls_and_no_fact(
    tmp_path: Path, endpoint: FakeEndpoint, status: int, code: str, message: str, reason: str
) -> None:
    endpoint.fail("http", times=-1, status=status, code=code, message=message)
    with stepped(tmp_path, HttpLLM(endpoint.url)) as run:
        live_for_an_hour(run)
        assert len(endpoint.requests) <= 12
        pause = run.model.breaker.pause
        assert pause is not None
        assert (pause.code, pause.message) == (reason, str(status))
        counts = run.store.counts()
        assert (counts.turns, counts.messages, counts.atoms) == (TURNS, 2 * TURNS, 0)
        failing = run.store.failing_jobs()
        assert failing
        assert failing[0].error == str(status)

        endpoint.heal()
        asked_before = len(endpoint.requests)
        run.clock.now += 30 * MINUTE
        run.run()
        assert run.model.breaker.pause is None
        assert_every_fact_is_there_once(run)
        assert run.store.failing_jobs() == []
        tasks = [request.task for request in endpoint.requests[asked_before:]]
        layers = [{"l1-extraction": 1, "l1-reconcile": 1, "l2-scenes": 2, "l3-persona": 3}[task] for task in tasks]
        assert layers == sorted(layers), "facts before scenes before the persona"
        assert tasks.count("l1-extraction") <= 2 * SESSIONS, "a session's turns are read together"


def test_the_first_call_after_a_pause_is_one_probe(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    endpoint.fail("http", times=2, status=402)
    with stepped(tmp_path, HttpLLM(endpoint.url)) as run:
        for number in range(10):
            capture(run.store, CONFIG, fact(number), session_key=f"s{number}")
        assert (run.run(), len(endpoint.requests)) == (1, 1)
        run.clock.now += MINUTE
        assert (run.run(), len(endpoint.requests)) == (1, 2)
        asked = [request.user for request in endpoint.requests]
        assert asked[0] != asked[1], "a job that may be at fault itself does not make every probe"
        run.clock.now += 2 * MINUTE
        run.run()
        assert len(contents(run)) == 10


def test_an_hour_of_server_errors_is_met_with_growing_pauses(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    endpoint.fail("http", times=-1, status=500)
    with stepped(tmp_path, HttpLLM(endpoint.url)) as run:
        live_for_an_hour(run)
        assert 3 <= len(endpoint.requests) <= 12
        assert run.model.breaker.pause is None, "a server may come back by itself"
        endpoint.heal()
        run.clock.now += 30 * MINUTE
        run.run()
        assert_every_fact_is_there_once(run)


def test_a_named_time_is_waited_for_and_no_longer(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    endpoint.fail("http", times=1, status=429, retry_after=3)
    with stepped(tmp_path, HttpLLM(endpoint.url)) as run:
        capture(run.store, CONFIG, fact(1))
        run.run()
        run.clock.now += 2_900
        assert run.run() == 0
        run.clock.now += 200
        assert run.run() == 1
        assert len(contents(run)) == 1


@pytest.mark.parametrize("mode", ["prose", "truncated", "null_content", "content_filter"])
def test_a_batch_whose_answer_is_no_use_is_parked_and_the_others_go_on(
    tmp_path: Path, endpoint: FakeEndpoint, mode: str
) -> None:
    with stepped(tmp_path, HttpLLM(endpoint.url)) as run:
        capture(run.store, CONFIG, fact(1), session_key="a")
        endpoint.fail(mode, times=2)
        run.run()
        capture(run.store, CONFIG, fact(2), session_key="b")
        run.run()
        assert run.model.breaker.pause is None
        assert len(contents(run)) == 1
        (parked,) = run.store.list_parked()
        assert (parked.session_key, bool(parked.reason)) == ("a", True)
        asked = len(endpoint.requests)
        run.clock.now += 60 * MINUTE
        run.run()
        assert not any(request.task == "l1-extraction" for request in endpoint.requests[asked:])
        run.store.make_due(run.clock(), expedite=True, parked=True)
        run.run()
        assert len(contents(run)) == 2
        assert run.store.list_parked() == []


def test_sequence_numbers_and_not_clocks_give_the_order(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    """Equal times, times that run backwards, and a change of the hour: the model reads what came first, first."""
    at = [3, 3, 1, 2, 2]
    with stepped(tmp_path, HttpLLM(endpoint.url)) as run:
        endpoint.fail("http", times=1, status=500)
        for number, hours in enumerate(at):
            said_at = f"2026-10-25T0{hours}:30:00+02:00"
            capture(run.store, CONFIG, f"turn {number}", "", now=run.clock(), at=said_at)
            run.clock.now -= 10 * MINUTE
        run.clock.now += 120 * MINUTE
        run.run()
        (request,) = endpoint.calls("l1-extraction")[-1:]
        places = [request.user.index(f"turn {number}") for number in range(len(at))]
        assert all(before < after for before, after in pairwise(places))
