"""`config llm`, `config embedding`: one question that shows whether a setting works; and what `config show` says of
settings without effect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import CommandLine
from fake_openai import FakeEndpoint
from processes import FAST_PIPELINE, WorkerProcess


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    endpoint = FakeEndpoint(api_key="sk-right")
    yield endpoint
    endpoint.close()


@pytest.fixture
def with_model(tmp_path: Path, endpoint: FakeEndpoint) -> Iterator[CommandLine]:
    settings = {"llm": {"baseUrl": endpoint.url, "model": "m", "apiKey": "sk-right"},
                "memory": {"pipeline": FAST_PIPELINE}}  # fmt: skip
    worker = WorkerProcess(tmp_path / "home", settings)
    worker.start()
    yield CommandLine(worker.home)
    CommandLine(worker.home).at_home("stop")
    worker.stop()


@pytest.mark.slow
def test_the_model_is_asked_once_and_its_answer_or_error_is_shown(
    with_model: CommandLine, endpoint: FakeEndpoint
) -> None:
    ran = with_model.at_home("config", "llm")
    assert (ran.code, len(endpoint.calls("check"))) == (0, 1), ran.err
    assert "answers" in ran.out
    assert endpoint.url.removeprefix("http://") in ran.out
    endpoint.api_key = "sk-other"
    ran = with_model.at_home("config", "llm", "--json")
    assert ran.code == 6
    assert (ran.document["asked"], ran.document["answers"]) == (True, False)
    assert ran.document["error"]
    assert "sk-right" not in ran.out
    with_model.at_home("config", "set", "llm.offline", "true")
    assert with_model.at_home("restart").code == 0
    assert with_model.at_home("config", "llm", "--json").document["asked"] is False
    assert with_model.at_home("status", "--json").document["llm"]["configured"] is False


def test_without_a_model_or_embedder_nothing_is_asked(cli: CommandLine) -> None:
    assert "rules" in cli.at_home("config", "llm").out
    ran = cli.at_home("config", "embedding")
    assert (ran.code, "by words" in ran.out) == (0, True)


def test_settings_without_effect_say_so(empty: CommandLine) -> None:
    empty.home.mkdir()
    (empty.home / "config.yaml").write_text("memory: {offload: {enabled: true}}\n")
    memory = empty.at_home("config", "show", "--json").document["memory"]
    assert memory["offload"]["enabled"] == {
        "value": True, "source": "file:config.yaml", "note": "not used by this version",
    }  # fmt: skip
    assert set(memory["recall"]["maxResults"]) == {"value", "source"}
    assert "not used by this version" in empty.at_home("config", "show").out
    empty.at_home("start")
    errors = empty.at_home("status", "--json").document["config"]["errors"]
    assert [error["key"] for error in errors] == ["memory.offload.enabled"]
