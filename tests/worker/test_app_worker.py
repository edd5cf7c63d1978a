"""The whole worker as a process: which model it uses, when it begins to work, and what it never writes down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import fake_openai
from memory_tencentdb.protocol import HELLO, PROTOCOL, STATUS, VERSION
from memory_tencentdb.wire import HostModel
from memory_tencentdb_worker.app import host_settings
from memory_tencentdb_worker.config.model import LLMSettings
from processes import FAST_PIPELINE, WorkerProcess

KEY = "sk-hostkey-0123456789abcdef"


@pytest.fixture
def offline(tmp_path: Path) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(tmp_path / "home", {"memory": {"pipeline": FAST_PIPELINE}})
    yield worker
    worker.stop()


def hello(host_model: dict[str, str] | None = None) -> dict[str, object]:
    return {"protocol": PROTOCOL, "version": VERSION, "client": "test", "host_model": host_model}


def texts_below(folder: Path) -> Iterator[bytes]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes()


def test_the_hosts_model_is_used_and_its_key_is_never_written(offline: WorkerProcess) -> None:
    with fake_openai.running() as endpoint:
        offline.start()
        model = {"base_url": endpoint.url, "api_key": KEY, "model": "fake-model", "provider": "custom"}
        for _ in range(2):
            offline.post(HELLO, hello(model))
        offline.capture("My name is Quillon and I keep a lighthouse.", "Hello.")
        assert offline.flush()["idle"]
        status = offline.get(STATUS).json()
    assert (status["llm"]["configured"], status["llm"]["source"], status["llm"]["model"]) == (
        True,
        "host",
        "fake-model",
    )
    assert status["calls"]["today"] >= 1
    assert offline.stop() == 0
    assert not any(KEY.encode() in text for text in texts_below(offline.home))


def test_a_configured_model_goes_before_the_hosts(tmp_path: Path) -> None:
    config = {"llm": {"model": "mine", "baseUrl": "http://127.0.0.1:9/v1", "apiKey": KEY}}
    worker = WorkerProcess(tmp_path / "home", config)
    worker.start()
    try:
        worker.post(
            HELLO, hello({"base_url": "http://127.0.0.1:8/v1", "api_key": "x", "model": "theirs", "provider": ""})
        )
        status = worker.get(STATUS)
        assert (status.json()["llm"]["source"], status.json()["llm"]["model"]) == ("config", "mine")
        assert KEY not in status.text
        assert KEY not in (worker.home / "logs" / "worker.log").read_text()
    finally:
        worker.stop()


@pytest.mark.parametrize(
    ("offered", "base_url", "model"),
    [
        (HostModel("http://e/v1", KEY, "m", "custom"), "http://e/v1", "m"),
        (HostModel("", KEY, "claude", "anthropic"), "", "anthropic/claude"),
        (HostModel("https://api.anthropic.com", KEY, "claude", "anthropic"), "", "anthropic/claude"),
        (HostModel("", KEY, "anthropic/claude", "anthropic"), "", "anthropic/claude"),
        (HostModel("", KEY, "m", ""), "", "m"),
    ],
)
def test_an_offered_model_is_put_into_our_words(offered: HostModel, base_url: str, model: str) -> None:
    settings = host_settings(offered, LLMSettings(timeout_ms=5000))
    assert (settings.base_url, settings.model, settings.timeout_ms) == (base_url, model, 5000)
    assert settings.api_key.get_secret_value() == KEY


def test_the_pipeline_waits_for_the_first_handshake(offline: WorkerProcess) -> None:
    errors = (offline.home / "test-worker.err").open("ab")
    command = [
        sys.executable,
        "-m",
        "memory_tencentdb_worker",
        "run",
        "--home",
        str(offline.home),
        "--await-hello",
        "60",
    ]
    offline.process = subprocess.Popen(command, env=offline.env, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
    errors.close()
    deadline = time.monotonic() + 15
    while not (offline.home / "worker.json").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    offline.capture("I live in Lisbon.")
    time.sleep(0.5)
    assert offline.get(STATUS).json()["counts"]["atoms"] == 0
    offline.post(HELLO, hello())
    assert offline.flush(20)["idle"]
    assert offline.get(STATUS).json()["counts"]["atoms"] >= 1


def test_health_answers_within_a_second_of_the_start(offline: WorkerProcess) -> None:
    assert offline.start() < 2.5, "half a second on a quiet machine"


def test_a_worker_killed_between_capture_and_extraction_goes_on_at_the_next_start(offline: WorkerProcess) -> None:
    offline.start()
    offline.capture("I live in Lisbon.", turn_id="t-1")
    os.kill(offline.pid, signal.SIGKILL)
    assert offline.process is not None
    offline.process.wait(10)
    offline.start()
    assert offline.capture("I live in Lisbon.", turn_id="t-1")["duplicate"] is True
    assert offline.flush(20)["idle"]
    counts = offline.get(STATUS).json()["counts"]
    assert (counts["turns"], counts["messages"], counts["atoms"]) == (1, 2, 1)
