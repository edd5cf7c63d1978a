"""`watch` as a person sees it, beside a real worker."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import CommandLine
from memory_tencentdb_worker.cli.watch import CLEAR, frame
from processes import WorkerProcess


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    process = WorkerProcess(tmp_path_factory.mktemp("watch") / "home", {})
    process.start()
    yield process
    process.stop()


def test_one_look_shows_turns_jobs_recalls_and_the_latest_words(worker: WorkerProcess) -> None:
    worker.capture("I live in Porto.\x1b[31m", session="w")
    worker.post("/recall", {"query": "Porto", "session_key": "w"})
    ran = CommandLine(worker.home).at_home("watch", "--once")
    assert ran.code == 0, ran.err
    assert "state ok" in ran.out
    assert "1 turns" in ran.out
    assert "recalls   1, " in ran.out
    assert "[w] user: I live in Porto." in ran.out
    assert "\x1b" not in ran.out, "neither colours of a message nor a cleared screen in a file"
    document = CommandLine(worker.home).at_home("watch", "--json").document
    assert set(document) == {"status", "requests", "latest"}


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """A background job of a shell ignores Ctrl-C, and would hand that on to what it starts."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_it_goes_on_while_the_worker_is_away_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path / "home", {})
    worker.start()
    command = [
        sys.executable,
        "-m",
        "memory_tencentdb_worker",
        "watch",
        "--interval",
        "0.2",
        "--home",
        str(worker.home),
    ]
    with subprocess.Popen(command, env=worker.env, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert "state ok" in watching.stdout.readline()
        worker.capture("A second thing.", session="w")
        seen = ""
        while "(+1)" not in seen:
            seen = watching.stdout.readline()
            assert seen
        worker.stop()
        while "no worker" not in seen:
            seen = watching.stdout.readline()
            assert seen
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()
        assert watching.wait(10) == 0


def test_an_interval_out_of_bounds_is_wrong_use(tmp_path: Path) -> None:
    assert CommandLine(tmp_path / "home").at_home("watch", "--interval", "0").code == 1
    assert CommandLine(tmp_path / "home").at_home("watch", "--once").code == 4


def test_a_store_that_does_not_answer_is_shown_as_unknown_and_not_as_empty(worker: WorkerProcess) -> None:
    status = worker.get("/v1/status").json()
    broken = {
        **status,
        "state": "broken",
        "counts": dict.fromkeys(status["counts"]),
        "jobs": dict.fromkeys(status["jobs"]),
    }
    view = {"status": broken, "requests": {}, "latest": []}
    assert "? turns" in frame(view, view)
    assert not frame(view, view).startswith(CLEAR)
