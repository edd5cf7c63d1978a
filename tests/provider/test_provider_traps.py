"""What went wrong in other people's memory providers, tried on ours; the numbers are those of the field's bug log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb import launch, paths, protocol
from memory_tencentdb.provider import TencentDBMemoryProvider
from memory_tencentdb.session import Session
from memory_tencentdb.tools import MEMORY_SEARCH
from processes import WorkerProcess
from provider_stub import stub_command

PACKAGE = Path(__file__).resolve().parents[2] / "memory_tencentdb"
Make = Callable[..., TencentDBMemoryProvider]


def test_the_worker_is_started_without_a_shell_in_its_own_session(
    home: Path, make_provider: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap B02: what we start is the worker itself, with nothing in between that could die alone."""
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command())
    link = make_provider()._link
    assert link is not None
    assert link.wait_ready(10)
    (pid,) = (home / "starts").read_text().split()
    assert Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == os.fsencode(sys.executable)
    assert os.getsid(int(pid)) == int(pid) != os.getsid(0)


def test_the_worker_gets_few_heaps_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    assert launch.worker_environment()["MALLOC_ARENA_MAX"] == launch.ARENAS
    monkeypatch.setenv("MALLOC_ARENA_MAX", "7")
    assert launch.worker_environment()["MALLOC_ARENA_MAX"] == "7"


def test_no_module_needs_more_than_every_platform_has_when_it_is_loaded() -> None:
    """Trap B02: attributes that only POSIX has are not touched by an import."""
    code = (
        f"import sys, os; sys.path.insert(0, {str(PACKAGE.parent)!r}); sys.platform = 'win32'\n"
        "for name in ('getuid', 'killpg', 'fork', 'setsid'): delattr(os, name)\n"
        "import types; sys.modules['msvcrt'] = types.ModuleType('msvcrt')\n"
        f"names = sorted(n[:-3] for n in os.listdir({str(PACKAGE)!r}) if n.endswith('.py') and n != '__init__.py')\n"
        "for name in names: __import__('memory_tencentdb.' + name)\n"
    )
    finished = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert finished.stderr == ""


def test_a_worker_that_prints_more_than_a_pipe_holds_goes_on(
    home: Path, make_provider: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap B15."""
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", stub_command("--talk", "300000"))
    link = make_provider()._link
    assert link is not None
    assert link.wait_ready(10)
    assert (home / "logs" / launch.OUTPUT_LOG).stat().st_size >= 300_000


@pytest.mark.parametrize(
    "settings",
    [
        {"ALL_PROXY": "socks5://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"},
        {"ALL_PROXY": "socks://127.0.0.1:1"},
        {"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "localhost,10.0.0.0/8,::1/128"},
    ],
)
def test_proxy_settings_do_not_touch_the_way_to_the_worker(
    stub: Any, make_provider: Make, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    """Traps B23 and B24."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    provider = make_provider()
    assert provider.is_available()
    assert provider.prefetch("favourite tea") != ""
    provider.sync_turn("one", "1")
    assert len(stub.bodies(protocol.CAPTURE)) == 1


@pytest.mark.parametrize("kind", ["stale socket", "file"])
def test_what_lies_where_the_socket_belongs(home: Path, make_provider: Make, real_worker: None, kind: str) -> None:
    """Trap B20: a dead worker's socket is replaced, anything else is left as it is and named."""
    import socket

    path = paths.socket_path(home / "data")
    if kind == "file":
        path.write_text("precious")
    else:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
    link = make_provider()._link
    assert link is not None
    assert link.wait_ready(20) == (kind == "stale socket")
    if kind == "file":
        assert "is not a socket" in link.reason
        assert path.read_text() == "precious"


def test_the_terminal_answer_is_quick_and_always_the_same_while_the_breaker_is_open(
    stub: Any, make_provider: Make
) -> None:
    """Traps B13 and B18: five failures open it, and then nobody waits for what will not come."""
    stub.answers[protocol.SEARCH_MEMORIES] = lambda body: (503, {"error": "no", "code": "store"})
    provider = make_provider()
    answers = []
    for turn in range(8):
        provider.on_turn_start(turn, "x")
        started = time.monotonic()
        answers.append(provider.handle_tool_call(MEMORY_SEARCH, {"query": "tea"}))
    assert time.monotonic() - started < 0.1
    assert len(set(answers)) == 1
    assert json.loads(answers[0])["retry"] is False
    assert len(stub.bodies(protocol.SEARCH_MEMORIES)) == 5


@pytest.mark.parametrize("odd", ["../x", "a:b", "a" * 300, "👩‍🚀", "agent:work", " "])
def test_odd_user_ids_are_scopes_of_their_own(odd: str) -> None:
    """Trap B107: kept to the letter, so that no two can meet."""
    assert Session("s", {"user_id": odd, "agent_identity": "work"}).user_id == odd
    assert Session("s", {"user_id": "", "agent_identity": "work", "hermes_home": "/h"}).user_id == "agent:work"


def test_a_short_session_is_kept_at_once_and_read_when_it_rests(tmp_path: Path) -> None:
    """Traps B26 and B27: three turns of five, and nobody says that the session has ended."""
    pipeline = {"everyNConversations": 5, "enableWarmup": False, "l1IdleTimeoutSeconds": 1}
    worker = WorkerProcess(tmp_path / "home", {"memory": {"pipeline": pipeline}})
    worker.start()
    try:
        for number, fact in enumerate(("I live in Lisbon.", "I keep bees.", "My dog is called Bramble.")):
            worker.capture(fact, turn_id=f"t-{number}")
        assert worker.get(protocol.STATUS).json()["counts"]["turns"] == 3
        until = time.monotonic() + 15
        while not worker.get(protocol.STATUS).json()["counts"]["atoms"] and time.monotonic() < until:
            time.sleep(0.1)
        assert worker.get(protocol.STATUS).json()["counts"]["atoms"] >= 1
    finally:
        worker.stop()


def test_half_a_turn_is_no_trouble_and_no_fact(home: Path, make_provider: Make, real_worker: None) -> None:
    """Trap B44."""
    provider = make_provider()
    link = provider._link
    assert link is not None
    assert link.wait_ready(20)
    for user, assistant in (("what did I ask for", ""), ("", "a"), ("and what then", "[interrupted]"), ("", "")):
        provider.sync_turn(user, assistant)
    assert link.ask(protocol.FLUSH, {"wait_seconds": 10}, 15)["idle"]
    counts = link.ask(protocol.STATUS, {}, 5, method="GET")["counts"]
    assert (counts["turns"], counts["atoms"]) == (3, 0)
