"""The short version of `scripts/bench faults`: a SIGKILL at every fault point, once, and some of the other faults."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

import fake_openai
from bench.fault_checks import Findings
from bench.fault_run import FaultRun, Plan
from bench.fault_scenarios import SCENARIOS
from memory_tencentdb.faults import POINTS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="what is left behind is looked for in /proc"),
]

TOGETHER = 2
SCENARIOS_HERE = (
    "reply lost: the answer comes too late",
    "worker frozen for good",
    "clock jumps 3 days back",
    "model: malformed answers",
    "embedder: not a number",
)
Outcome = tuple[bool, Findings]


def kill_first(point: str) -> Outcome:
    with fake_openai.running() as endpoint:
        run = FaultRun(Plan(f"{point}:kill", seed=1, turns=3), endpoint)
        try:
            findings = run.run()
            return run.fired, findings
        finally:
            run.remove()


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Outcome]]]:
    """The runs of all tests that were selected, two at a time: most of each is waiting for processes to start."""
    asked = [item.callspec.params for item in request.session.items if item.fspath == request.node.fspath]
    with ThreadPoolExecutor(TOGETHER) as pool:
        points = {one["point"]: pool.submit(kill_first, one["point"]) for one in asked if "point" in one}
        others = {one["name"]: pool.submit(SCENARIOS[one["name"]], 1) for one in asked if "name" in one}
        yield points | others
        for future in [*points.values(), *others.values()]:
            future.cancel()


@pytest.mark.parametrize("point", POINTS)
def test_nothing_is_lost_or_twice_after_a_kill_at(point: str, outcomes: dict[str, Future[Outcome]]) -> None:
    fired, findings = outcomes[point].result()
    assert fired, f"{point} was not reached"
    assert list(findings.lines()) == []


@pytest.mark.parametrize("name", SCENARIOS_HERE)
def test_nothing_is_lost_or_twice_after(name: str, outcomes: dict[str, Future[Outcome]]) -> None:
    fired, findings = outcomes[name].result()
    assert fired
    assert list(findings.lines()) == []
