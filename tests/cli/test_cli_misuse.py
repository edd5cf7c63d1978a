"""Homes that are none, names that are no text, workers that cannot be reached: a reason and a code, never a trace."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from command_line import CommandLine

NO_TEXT = os.fsdecode(b"\xff")


@pytest.mark.parametrize("home", ["/dev/null", "/etc/passwd/nope", "/" + "a" * 5000, f"/tmp/{NO_TEXT}"])
@pytest.mark.parametrize("words", [("start",), ("run",), ("status", "--json"), ("stop",), ("logs",)], ids=str)
def test_a_home_that_cannot_be_one_ends_with_a_reason(empty: CommandLine, words: tuple[str, ...], home: str) -> None:
    ran = empty(*words, "--home", home)
    assert "Traceback" not in ran.err + ran.out
    assert ran.code in ((0, 2, 3) if words[0] in ("stop", "logs") else (3, 4))
    if words[0] in ("start", "run"):
        assert ran.code == 3
        assert "\nmemory-tencentdb: " in f"\n{ran.err}"
    if "--json" in words:
        assert json.loads(ran.out)
    assert not Path("/tmp", NO_TEXT, "data", "memory.db").exists()


@pytest.mark.parametrize("words", [("--home", ""), ("--data-dir", " ")])
def test_an_empty_home_is_wrong_use_and_not_the_default_one(empty: CommandLine, words: tuple[str, str]) -> None:
    ran = empty("status", *words)
    assert ran.code == 1
    assert "names no directory" in ran.err


def test_an_id_that_is_no_text_is_not_found(cli: CommandLine) -> None:
    ran = cli.at_home("why", NO_TEXT, "--json")
    assert (ran.code, ran.document["code"]) == (2, "not_found")


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (("why", "m_0000000000000000"), 2, "not_found"),
        (("inspect", "-L", "L0", "--since", "never"), 1, None),
        (("search", "memories"), 1, "wrong_use"),
        (("config", "set", "llm.modle", "x"), 3, "configuration"),
        (("capture", "--session", "s", "--assistant", "a", "--user"), 1, "wrong_use"),
    ],
)
def test_with_json_a_failure_is_a_document_too(
    cli: CommandLine, words: tuple[str, ...], exit_code: int, code: str | None
) -> None:
    ran = cli.at_home(*words, "--json")
    assert ran.code == exit_code
    assert set(ran.document) == {"error", "code"}
    assert code is None or ran.document["code"] == code
    assert ran.document["error"] in ran.err
    assert cli.at_home(*words).out == ""


def test_a_text_over_the_limit_says_so(cli: CommandLine, tmp_path: Path) -> None:
    """Longer than an argument can be: by way of the client that the command uses."""
    from memory_tencentdb_worker.cli.connect import WorkerClient
    from memory_tencentdb_worker.cli.exits import RefusedError

    client = WorkerClient(Path(cli.at_home("status", "--json").document["worker"]["socket"]))
    body = {"user_content": "x" * 2_000_000, "assistant_content": "", "session_key": "s"}
    with pytest.raises(RefusedError, match="at most"):
        client.post("/capture", body)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are named by /proc or ps; one is enough")
@pytest.mark.parametrize("frozen", [False, True])
def test_a_worker_whose_socket_was_removed_is_found_and_ended(empty: CommandLine, frozen: bool) -> None:
    document = empty.at_home("start", "--json").document
    Path(empty.at_home("status", "--json").document["worker"]["socket"]).unlink()
    if frozen:  # it cannot notice by itself
        os.kill(document["pid"], signal.SIGSTOP)
    assert empty.at_home("stop", "--json").document == {"pid": document["pid"], "stopped": True}
    with suppress(psutil.NoSuchProcess):
        assert psutil.Process(document["pid"]).status() == psutil.STATUS_ZOMBIE


def test_restart_and_start_get_past_a_worker_that_lost_its_socket(empty: CommandLine) -> None:
    first = empty.at_home("start", "--json").document["pid"]
    Path(empty.at_home("status", "--json").document["worker"]["socket"]).unlink()
    second = empty.at_home("restart", "--json").document["pid"]
    assert second != first
    Path(empty.at_home("status", "--json").document["worker"]["socket"]).unlink()
    third = empty.at_home("start", "--json").document
    assert (third["started"], third["pid"] != second) == (True, True)
