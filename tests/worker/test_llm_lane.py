"""The lane: a real child with real litellm against an endpoint of our own over HTTP."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from fake_openai import FakeEndpoint, running
from memory_tencentdb_worker.config.model import LLMSettings
from memory_tencentdb_worker.errors import LLMContent, LLMTerminal, LLMTransient, WorkerError
from memory_tencentdb_worker.llm.lane import LaneLLM
from memory_tencentdb_worker.models import CompletionRequest

KEY = "sk-very-secret-0123456789"
REQUEST = CompletionRequest(
    task="chat", system="You answer.", user="Hello there", max_tokens=300, timeout_seconds=20, json_mode=False
)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[FakeEndpoint]:
    with running() as fake:
        yield fake


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def shared_lane(endpoint: FakeEndpoint, logs: Path) -> Iterator[LaneLLM]:
    lane = LaneLLM(settings(endpoint.url), logs)
    yield lane
    lane.close()


@pytest.fixture
def lane(shared_lane: LaneLLM, endpoint: FakeEndpoint) -> LaneLLM:
    endpoint.heal()
    return shared_lane


def settings(url: str, **more: object) -> LLMSettings:
    return LLMSettings.model_validate({"base_url": url, "api_key": SecretStr(KEY), "model": "fake-model", **more})


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists() if Path("/proc").exists() else not _signalled(pid)


def eventually(happened: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.01)
    return happened()


def _signalled(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_answer_comes_back_with_its_cost(lane: LaneLLM) -> None:
    answer = lane.complete(REQUEST)
    assert answer.text == "ok: Hello there"
    assert (answer.finish_reason, answer.model) == ("stop", "fake-model")
    assert answer.tokens_in > 0
    assert answer.tokens_out > 0
    assert answer.elapsed_ms < 10_000


def test_text_of_any_script_travels_unharmed(lane: LaneLLM, endpoint: FakeEndpoint) -> None:
    text = 'a "quoted" line\nanother\u2028line 我对花生过敏 👩‍👩‍👧 \ud800 end'
    lane.complete(replace(REQUEST, user=text))
    assert endpoint.calls("chat")[-1].user == text.replace("\ud800", "?")


def test_the_request_is_one_plain_call(lane: LaneLLM, endpoint: FakeEndpoint) -> None:
    before = len(endpoint.requests)
    endpoint.fail("http", times=-1, status=500)
    with pytest.raises(LLMTransient):
        lane.complete(replace(REQUEST, json_mode=True))
    assert len(endpoint.requests) == before + 1
    sent = endpoint.requests[-1]
    assert sent.body["response_format"] == {"type": "json_object"}
    assert sent.body["max_tokens"] == 300
    assert not sent.body.get("stream")
    assert sent.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("plan", "error", "code"),
    [
        ({"mode": "http", "status": 401, "code": "invalid_api_key"}, LLMTerminal, "unauthorised"),
        ({"mode": "http", "status": 402, "code": "insufficient_balance"}, LLMTerminal, "quota"),
        ({"mode": "http", "status": 403, "code": "permission_denied"}, LLMTerminal, "unauthorised"),
        ({"mode": "http", "status": 404, "code": "model_not_found"}, LLMTerminal, "model_not_found"),
        ({"mode": "http", "status": 429, "code": "insufficient_quota"}, LLMTerminal, "quota"),
        ({"mode": "http", "status": 400, "code": "context_length_exceeded"}, LLMContent, "context_length"),
        ({"mode": "http", "status": 400, "code": "oddity"}, LLMContent, "bad_request"),
        ({"mode": "http", "status": 408, "code": "timeout"}, LLMTransient, "timeout"),
        ({"mode": "http", "status": 429, "code": "rate_limit_exceeded"}, LLMTransient, "rate_limit"),
        ({"mode": "http", "status": 503, "code": "overloaded"}, LLMTransient, "server_error"),
        ({"mode": "reset"}, LLMTransient, "unreachable"),
        ({"mode": "html"}, LLMTransient, "garbage"),
        ({"mode": "empty_body"}, LLMTransient, "garbage"),
        ({"mode": "empty_choices"}, LLMContent, "empty_choices"),
        ({"mode": "null_content"}, LLMContent, "empty"),
        ({"mode": "content_filter"}, LLMContent, "content_filter"),
        ({"mode": "refusal"}, LLMContent, "refusal"),
        ({"mode": "reasoning_only"}, LLMContent, "only_reasoning"),
    ],
    ids=lambda value: "-".join(str(v) for v in value.values()) if isinstance(value, dict) else None,
)
def test_every_failure_has_its_class(
    lane: LaneLLM, endpoint: FakeEndpoint, plan: dict[str, object], error: type[WorkerError], code: str
) -> None:
    endpoint.fail(**plan)  # type: ignore[arg-type]
    with pytest.raises(error) as caught:
        lane.complete(REQUEST)
    assert caught.value.code == code
    assert lane.running
    assert lane.complete(REQUEST).text.startswith("ok")


def test_retry_after_is_handed_on(lane: LaneLLM, endpoint: FakeEndpoint) -> None:
    endpoint.fail("http", status=429, code="rate_limit_exceeded", retry_after=7)
    with pytest.raises(LLMTransient) as caught:
        lane.complete(REQUEST)
    assert caught.value.retry_after_seconds == 7


def test_the_key_is_in_no_error_no_log_and_no_command_line(lane: LaneLLM, endpoint: FakeEndpoint, logs: Path) -> None:
    endpoint.fail("http", status=401, message=f"Incorrect API key provided: {KEY}")
    with pytest.raises(LLMTerminal) as caught:
        lane.complete(REQUEST)
    assert KEY not in str(caught.value)
    assert "***" in str(caught.value)
    process = Path(f"/proc/{lane.pid}")
    seen = [path.read_bytes() for path in logs.iterdir()]
    seen += [(process / name).read_bytes() for name in ("cmdline", "environ") if process.exists()]
    assert not any(KEY.encode() in content for content in seen)


def test_a_rejected_parameter_is_left_out_from_then_on(endpoint: FakeEndpoint, lane: LaneLLM) -> None:
    request = replace(REQUEST, json_mode=True, model="picky", extra={"temperature": 0.1, "top_k": 3})
    endpoint.fail("unsupported_param", times=-1, params=["response_format", "temperature", "max_tokens", "top_k"])
    before = len(endpoint.requests)
    assert lane.complete(request).text
    assert len(endpoint.requests) == before + 5
    assert endpoint.requests[-1].body["max_completion_tokens"] == 300
    assert lane.complete(request).text
    assert len(endpoint.requests) == before + 6


def test_a_cut_off_answer_keeps_its_finish_reason(lane: LaneLLM, endpoint: FakeEndpoint) -> None:
    endpoint.fail("truncated")
    assert lane.complete(REQUEST).finish_reason == "length"


def test_a_lane_that_was_killed_is_started_again(lane: LaneLLM) -> None:
    lane.complete(REQUEST)
    first = lane.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: not lane.running)
    assert lane.complete(REQUEST).text
    assert lane.pid != first


def test_a_frozen_lane_is_ended_at_the_deadline(lane: LaneLLM) -> None:
    lane.complete(REQUEST)
    pid = lane.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    begun = time.monotonic()
    with pytest.raises(LLMTransient) as caught:
        lane.complete(replace(REQUEST, user="x" * 1_000_000, timeout_seconds=0.5))
    assert time.monotonic() - begun < 2
    assert caught.value.code == "timeout"
    assert gone(pid)


def test_an_overrun_call_costs_the_lane_its_life() -> None:
    """The endpoint drips its header byte by byte, so that litellm's own time-out never strikes."""
    with dripping() as (url, accepted):
        slow = LaneLLM(settings(url))
        with closing(slow):
            with pytest.raises(LLMTransient) as caught:
                slow.complete(replace(REQUEST, timeout_seconds=1))
            assert time.monotonic() - accepted[0] < 2.2
            assert caught.value.code == "timeout"
            assert not slow.running


def test_an_idle_lane_leaves_and_unusable_proxies_do_no_harm(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.heal()
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "localhost,::1/128")
    idle = LaneLLM(settings(endpoint.url), idle_seconds=0.2)
    with closing(idle):
        assert idle.complete(REQUEST).text
        pid = idle.pid
        assert pid is None or eventually(lambda: gone(pid))
        assert not idle.running


def test_a_lane_without_its_worker_ends() -> None:
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "memory_tencentdb_worker.llm.lane_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(15) == 0


def test_close_interrupts_a_running_call_and_is_final(endpoint: FakeEndpoint, lane: LaneLLM) -> None:
    endpoint.fail("hang", seconds=30, task="chat")
    other = LaneLLM(settings(endpoint.url, disable_thinking="deepseek"))
    failures: list[BaseException] = []

    def call() -> None:
        try:
            other.complete(REQUEST)
        except LLMTransient as problem:
            failures.append(problem)

    before = len(endpoint.requests)
    thread = threading.Thread(target=call)
    thread.start()
    assert eventually(lambda: len(endpoint.requests) > before)
    pid = other.pid
    assert pid is not None
    begun = time.monotonic()
    other.close()
    other.close()
    thread.join(5)
    assert time.monotonic() - begun < 2
    assert [problem.code for problem in failures] == ["lane_closed"]
    assert gone(pid)
    assert endpoint.requests[-1].body["enable_thinking"] is False
    with pytest.raises(LLMTransient):
        other.complete(REQUEST)


@contextmanager
def dripping() -> Iterator[tuple[str, list[float]]]:
    """A server that sends a byte now and then and never finishes; with the times when it was reached."""
    accepted: list[float] = []
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)

    def serve() -> None:
        open_ones: list[socket.socket] = []
        while not stop.is_set():
            with suppress(TimeoutError):
                connection, _ = listener.accept()
                open_ones.append(connection)
                accepted.append(time.monotonic())
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Drip: ")
            for connection in open_ones:
                with suppress(OSError):
                    connection.sendall(b"x")
        for connection in open_ones:
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", accepted
    finally:
        stop.set()
        thread.join()
        listener.close()
