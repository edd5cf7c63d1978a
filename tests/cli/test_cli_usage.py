"""Wrong use, help, and what every command promises without a worker."""

from __future__ import annotations

import json

import pytest

from command_line import CommandLine
from memory_tencentdb_worker.cli.main import build_parser
from memory_tencentdb_worker.cli.output import cell_width, plain

COMMANDS = (
    "run", "start", "stop", "restart", "status", "logs", "capture", "recall", "search", "flush", "rebuild",
    "inspect", "why", "why-not", "scene", "config", "calls", "replay",
)  # fmt: skip


HEAVY = {"apsw", "fastapi", "httpx", "litellm", "numpy", "openai", "pydantic", "starlette", "uvicorn", "yaml"}
"""Each costs a command more time than all of its own code."""


def test_help_names_every_command_and_loads_nothing_heavy(empty: CommandLine) -> None:
    ran = empty("--help", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in ran.err.splitlines() if line.startswith("import time:")}
    assert ran.code == 0
    assert all(f"    {name} " in ran.out for name in COMMANDS)
    assert "memory_tencentdb_worker.cli.main" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize(
    "words", [[], ["nonsense"], ["capture"], ["search"], ["flush", "--wait", "soon"], ["inspect", "-L", "L9"],
              ["recall", "x"], ["status", "--stat"], ["config", "set", "llm.model"]],
)  # fmt: skip
def test_wrong_use_exits_1_and_prints_nothing_on_stdout_but_help(empty: CommandLine, words: list[str]) -> None:
    ran = empty(*words)
    assert ran.code == 1
    assert ran.out == "" or words == []


def test_places_may_stand_before_or_after_the_command() -> None:
    parser = build_parser()
    for words in (["--home", "/h", "status"], ["status", "--home", "/h"], ["search", "--home", "/h", "memories", "q"],
                  ["search", "memories", "q", "--home", "/h"]):  # fmt: skip
        args = parser.parse_args(words)
        assert (args.home, args.data_dir) == ("/h", None)


@pytest.mark.parametrize(
    "words",
    [["capture", "--session", "s", "--user", "a", "--assistant", "b"], ["recall", "q", "--session", "s"],
     ["search", "memories", "q"], ["search", "conversations", "q"], ["flush"], ["inspect"], ["why", "m_1"],
     ["why-not", "m_1", "q"], ["scene", "x"], ["rebuild"]],
)  # fmt: skip
def test_without_a_worker_a_query_exits_4_and_says_what_to_do(empty: CommandLine, words: list[str]) -> None:
    ran = empty.at_home(*words, "--json")
    assert (ran.code, ran.document["code"]) == (4, "unreachable")
    assert f"start --home {empty.home}" in ran.err


def test_status_without_a_worker_exits_4_with_the_whole_document(empty: CommandLine) -> None:
    empty.home.mkdir()
    (empty.home / "config.json").write_text(json.dumps({"llm": {"model": "m", "apiKey": "sk-hidden-value", "x": 1}}))
    (empty.home / "outbox").mkdir()
    (empty.home / "outbox" / "a.jsonl").write_text('{"a": 1}\n{"b": 2}\n')
    ran = empty.at_home("status", "--json")
    document = ran.document
    assert ran.code == 4
    assert set(document) >= {"state", "reasons", "worker", "data_dir", "counts", "jobs", "outbox", "llm", "embedding",
                             "config", "calls"}  # fmt: skip
    assert (document["state"], document["worker"]) == ("broken", None)
    assert document["reasons"][0]["code"] == "worker_unreachable"
    assert document["data_dir"] == str(empty.home / "data")
    assert document["outbox"] == {"turns": 2}
    assert document["llm"]["configured"] is True
    assert document["config"]["errors"][0]["key"] == "llm.x"
    assert "sk-hidden-value" not in ran.out + ran.err
    assert "state      broken" in empty.at_home("status").out


def test_stop_without_a_worker_is_no_error(empty: CommandLine) -> None:
    assert empty.at_home("stop").code == 0
    assert empty.at_home("stop", "--json").document == {"pid": None, "stopped": False}


def test_logs_without_a_log_exit_2(empty: CommandLine) -> None:
    assert empty.at_home("logs").code == 2


def test_config_show_gives_every_value_with_its_source(empty: CommandLine) -> None:
    empty.home.mkdir()
    (empty.home / "config.yaml").write_text("memory: {recall: {maxResults: 7}}\n")
    ran = empty.at_home("config", "show", "--json", TDAI_LLM_MODEL="m", TDAI_LLM_API_KEY="sk-hidden-value")
    document = ran.document
    assert ran.code == 0
    assert document["memory"]["recall"]["maxResults"] == {"value": 7, "source": "file:config.yaml"}
    assert document["llm"]["model"] == {"value": "m", "source": "env:TDAI_LLM_MODEL"}
    assert document["llm"]["apiKey"] == {"value": "***", "source": "env:TDAI_LLM_API_KEY"}
    assert document["memory"]["timezone"] == {"value": "system", "source": "default"}
    assert "memory.recall.maxResults" in empty.at_home("config", "show").out


def test_config_set_writes_what_config_show_then_shows(empty: CommandLine) -> None:
    assert empty.at_home("config", "set", "memory.recall.max_results", "9").code == 0
    assert empty.at_home("config", "show", "--json").document["memory"]["recall"]["maxResults"]["value"] == 9
    ran = empty.at_home("config", "set", "llm.apiKey", "sk-hidden-value", "--json")
    assert ran.document["value"] == "***"
    assert empty.at_home("config", "set", "llm.modle", "x").code == 3
    assert "llm.model" in empty.at_home("config", "set", "llm.modle", "x").err


def test_a_config_with_emoji_is_read_under_the_c_locale(empty: CommandLine) -> None:
    empty.home.mkdir()
    (empty.home / "config.yaml").write_text("\ufeff# 😀\nllm: {model: 模型}\n", encoding="utf-8")
    ran = empty.at_home("config", "show", "--json", LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert ran.document["llm"]["model"]["value"] == "模型"


def test_text_for_a_terminal_cannot_steer_it() -> None:
    assert plain("a\x1b[31mb\u202e\x07c\td\ne") == "a[31mbc d\ne"
    assert cell_width("中a") == 3
