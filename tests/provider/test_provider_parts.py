"""The small parts: breaker, limits, scopes, configuration files, and what loading the folder costs."""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memory_tencentdb import cli, register
from memory_tencentdb.breaker import Breaker
from memory_tencentdb.errors import ProviderError
from memory_tencentdb.provider import TencentDBMemoryProvider
from memory_tencentdb.session import Session
from memory_tencentdb.tools import coerce_limit
from memory_tencentdb.wizard import run_wizard, save_values

PACKAGE = Path(__file__).resolve().parents[2] / "memory_tencentdb"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_breaker_opens_after_five_failures_and_lets_one_probe_through() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    for _ in range(4):
        breaker.fail()
    assert breaker.allow()
    breaker.fail()
    assert not breaker.allow()
    clock.now = 60
    assert [breaker.allow(), breaker.allow()] == [True, False]
    breaker.fail()
    assert not breaker.allow()
    clock.now = 120
    assert breaker.allow()
    breaker.succeed()
    assert breaker.allow()
    assert not breaker.is_open


def test_a_success_forgets_earlier_failures() -> None:
    breaker = Breaker(clock=Clock())
    for _ in range(4):
        breaker.fail()
    breaker.succeed()
    breaker.fail()
    assert breaker.allow()


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        (None, 5),
        ("", 5),
        (True, 5),
        ("many", 5),
        ([], 5),
        (float("nan"), 5),
        (float("inf"), 5),
        ("7", 7),
        (3.9, 3),
        (0, 1),
        (99, 20),
    ],
)
def test_limits_are_made_sense_of(value: object, limit: int) -> None:
    assert coerce_limit(value) == limit


@pytest.mark.parametrize(
    ("facts", "scope"),
    [
        ({}, ""),
        ({"user_id": "Ada "}, "Ada "),
        ({"user_id": "ada", "agent_identity": "coder"}, "ada"),
        ({"agent_identity": "default", "hermes_home": "/h"}, ""),
        ({"agent_identity": "coder", "hermes_home": "/h/profiles/coder"}, ""),
        ({"agent_identity": "coder", "hermes_home": "/h"}, "agent:coder"),
    ],
)
def test_the_scope_is_the_user_else_an_agent_outside_its_own_home(facts: dict[str, str], scope: str) -> None:
    """Trap B107."""
    assert Session("s", facts).user_id == scope


def test_register_hands_over_one_provider_and_leaves_other_contexts_alone() -> None:
    given: list[TencentDBMemoryProvider] = []
    register(SimpleNamespace(register_memory_provider=given.append))
    register(SimpleNamespace())
    assert [provider.name for provider in given] == ["memory_tencentdb"]


@pytest.fixture
def worker_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real worker's command line, as the wizard finds it."""
    root = Path(__file__).resolve().parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), str(root / "worker")]))
    monkeypatch.setenv("MEMORY_TENCENTDB_WORKER_CMD", f"{shlex.quote(sys.executable)} -m memory_tencentdb_worker run")


@pytest.mark.usefixtures("worker_command")
def test_settings_are_merged_into_the_file_that_is_there(home: Path) -> None:
    (home / "config.yaml").write_text("# mine\nmemory:\n  timezone: UTC  # no summer time\n")
    save_values({"llm_base_url": "http://m/v1", "llm_model": "m", "llm_api_key": "sk"}, home)
    text = (home / "config.yaml").read_text()
    assert text.startswith("# mine\nmemory:\n  timezone: UTC  # no summer time\n")
    assert "http://m/v1" in text
    assert 'model: "m"\n' in text
    assert "sk" not in text


@pytest.mark.usefixtures("worker_command")
def test_a_file_that_cannot_be_read_is_left_as_it_is(home: Path) -> None:
    (home / "config.json").write_text("{torn")
    with pytest.raises(ProviderError):
        save_values({"llm_model": "m"}, home)
    assert (home / "config.json").read_text() == "{torn"


@pytest.mark.usefixtures("worker_command")
def test_the_wizard_asks_nothing_without_a_terminal(
    home: Path, places: Path, stub: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    host_file = places / "hermes" / "config.yaml"
    host_file.write_text("# mine\nmodel: gpt\n")
    stub.answers["/v1/check/llm"] = lambda _: (200, {"asked": True, "answers": False, "model": "m", "error": "401"})
    stub.answers["/v1/check/embedding"] = lambda _: (200, {"asked": False})
    config: dict[str, object] = {}
    run_wizard(str(places / "hermes"), config)
    assert config == {"memory": {"provider": "memory_tencentdb"}}
    assert host_file.read_text() == "# mine\nmodel: gpt\nmemory:\n  provider: memory_tencentdb\n"
    said = capsys.readouterr().out
    assert "The worker runs" in said
    assert "Model m does NOT answer: 401" in said
    run_wizard(str(places / "hermes"), config)
    assert "nothing to change" in capsys.readouterr().out
    assert len(list((places / "hermes").glob("config.yaml.bak-*"))) == 1


def test_the_command_line_is_handed_over_with_the_profiles_home(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "MEMORY_TENCENTDB_WORKER_CMD",
        f"{shlex.quote(sys.executable)} -c 'import sys;print(sys.argv[1:]);sys.exit(6)' run",
    )
    parser = argparse.ArgumentParser()
    cli.register_cli(parser)
    for words in (["search", "memories", "tea", "--json"], ["status", "--data-dir", "/d"]):
        with pytest.raises(SystemExit) as ended:
            cli.memory_tencentdb_command(parser.parse_args(words))
        assert ended.value.code == 6
    first, second = capfd.readouterr().out.splitlines()
    assert first == str(["search", "memories", "tea", "--json", "--home", str(home)])
    assert second == str(["status", "--data-dir", "/d"])


def test_backup_names_only_a_data_directory_outside_the_hosts_home(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = TencentDBMemoryProvider()
    assert provider.backup_paths() == []
    monkeypatch.setenv("HOME", str(places))
    monkeypatch.setenv("TDAI_DATA_DIR", str(places / "elsewhere"))
    (places / "elsewhere").mkdir()
    assert provider.backup_paths() == [str(places / "elsewhere")]


def test_the_provider_is_unavailable_without_a_worker_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TencentDBMemoryProvider()
    assert provider.is_available()
    monkeypatch.delenv("MEMORY_TENCENTDB_WORKER_CMD")
    without = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
            "from memory_tencentdb.provider import TencentDBMemoryProvider as P\n"
            "sys.modules['memory_tencentdb_worker'] = None\n"
            "import importlib.util; importlib.util.find_spec = lambda name: None\n"
            "print(P().is_available(), P().unavailable_reason())",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert without.stdout.startswith("False the memory worker is not installed")


LOAD = """
import importlib, os, sys, time
sys.path.insert(0, {root!r})
known, before = set(sys.modules), time.process_time()
names = sorted(name[:-3] for name in os.listdir({package!r}) if name.endswith(".py"))
for name in names:
    importlib.import_module("memory_tencentdb" if name == "__init__" else "memory_tencentdb." + name)
print((time.process_time() - before) * 1000)
loaded = [(name, module) for name, module in sys.modules.items() if name not in known]
outside = [name for name, module in loaded if "site-packages" in (getattr(module, "__file__", None) or "")]
print(outside)
"""


def test_the_folder_loads_within_its_budget_and_with_the_standard_library_only() -> None:
    code = LOAD.format(root=str(PACKAGE.parent), package=str(PACKAGE))
    runs = []
    for _ in range(20):
        finished = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
        spent, outside = finished.stdout.splitlines()
        runs.append(float(spent))
    assert outside == "[]"
    assert statistics.median(runs) < 30


@pytest.mark.parametrize("module", sorted(path.stem for path in PACKAGE.glob("*.py")))
def test_each_module_can_be_loaded_alone(module: str) -> None:
    name = "memory_tencentdb" if module == "__init__" else f"memory_tencentdb.{module}"
    code = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import {name}"
    finished = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert finished.stderr == ""
    assert os.listdir(PACKAGE)
