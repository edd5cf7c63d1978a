"""What a person is told when no worker answers, and what a worker by hand takes from its host's files."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import CommandLine
from memory_tencentdb_worker.host_environment import host_variables, read_variables
from memory_tencentdb_worker.last_exit import IDLE, LastExit, forget_exit, note_exit, read_exit
from processes import FAST_PIPELINE, WorkerProcess


@pytest.fixture
def under_host(tmp_path: Path) -> Iterator[CommandLine]:
    """The command line for the home of a Hermes profile whose path a shell would split."""
    line = CommandLine(tmp_path / "the host's home" / "memory_tencentdb")
    line.home.mkdir(parents=True)
    yield line
    line.at_home("stop")


def test_a_query_without_a_worker_exits_4_with_a_command_that_works(under_host: CommandLine) -> None:
    ran = under_host.at_home("search", "memories", "tea", "--json")
    assert (ran.code, ran.document["code"]) == (4, "unreachable")
    command = shlex.split(ran.err.split("start it: ")[1])
    assert Path(command[0]).is_absolute()
    assert command[-1] == str(under_host.home)
    done = subprocess.run(command, env=under_host.environment(), capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert under_host.at_home("search", "memories", "tea", "--json").code == 0


def test_a_worker_that_left_by_itself_is_nothing_to_worry_about(tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path / "home", {"memory": {"pipeline": FAST_PIPELINE}},
                           {"MEMORY_TENCENTDB_IDLE_SECONDS": "1"})  # fmt: skip
    worker.start()
    assert worker.process is not None
    assert worker.process.wait(15) == 0
    line = CommandLine(worker.home)
    ran = line.at_home("recall", "tea", "--session", "s")
    assert ran.code == 4
    assert "it left after 1 idle seconds, nothing is wrong" in ran.err
    document = line.at_home("status", "--json").document
    assert (document["state"], document["worker"]) == ("broken", None)
    assert "nothing is wrong" in document["reasons"][0]["message"]
    assert str(worker.home) in document["reasons"][0]["action"]


def test_nothing_speaks_for_a_worker_that_was_killed(tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path / "home", {"memory": {"pipeline": FAST_PIPELINE}})
    logs = worker.home / "logs"
    logs.mkdir(parents=True)
    note_exit(logs, LastExit(1, IDLE, 1800))
    worker.start()
    worker.kill()
    assert read_exit(logs) is None
    assert "nothing is wrong" not in CommandLine(worker.home).at_home("recall", "tea", "--session", "s").err


def test_the_note_of_the_last_exit_survives_being_unreadable(tmp_path: Path) -> None:
    note_exit(tmp_path, LastExit(1, IDLE, 1800))
    assert read_exit(tmp_path) == LastExit(1, IDLE, 1800)
    assert LastExit(1, IDLE, 1800).describe() == "it left after 30 idle minutes, nothing is wrong"
    (tmp_path / "last-exit.json").write_text("[1]")
    assert read_exit(tmp_path) is None
    forget_exit(tmp_path)
    forget_exit(tmp_path)


def test_a_worker_started_by_hand_has_the_hosts_variables(under_host: CommandLine, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where"
    (under_host.home.parent / ".env").write_text(f'TDAI_DATA_DIR="{elsewhere}"  # big disk\nPATH=/nowhere\n')
    started = under_host.at_home("start")
    assert started.code == 0, started.err
    assert str(elsewhere) not in started.out + started.err
    assert under_host.at_home("status", "--json").document["data_dir"] == str(elsewhere)


def test_only_our_variables_are_taken_and_the_environment_goes_first(tmp_path: Path) -> None:
    home = tmp_path / "memory_tencentdb"
    (tmp_path / ".env").write_text("TDAI_LLM_MODEL=file\nTDAI_LLM_API_KEY='a#b'\nOPENAI_API_KEY=x\n")
    assert host_variables(home, {"TDAI_LLM_MODEL": "shell"}) == {"TDAI_LLM_API_KEY": "a#b"}
    assert host_variables(tmp_path / "standalone", {}) == {}
    assert host_variables(tmp_path / "away" / "memory_tencentdb", {}) == {}


def test_the_forms_of_a_dotenv_line() -> None:
    text = 'A=1\nexport B = two words # note\n# C=3\nD="a \\"b\\" # c" # d\nE=\nF=a#b\nno line\n9=x\n'
    assert read_variables(text) == {"A": "1", "B": "two words", "D": 'a "b" # c', "E": "", "F": "a#b"}
