"""The wizard as a person meets it: at a terminal, with the real worker and a model that answers or does not."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_openai import FakeEndpoint

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "import sys; from memory_tencentdb.wizard import run_wizard; run_wizard(sys.argv[1], {})"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_worker")]


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    endpoint = FakeEndpoint()
    yield endpoint
    endpoint.close()


def answer_wizard(hermes_home: Path, *lines: str) -> str:
    """What it prints to somebody who types one of these lines at each question."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "worker")])}
    environment |= {"TDAI_EMBEDDING_PROVIDER": "none", "PYTHONUNBUFFERED": "1"}
    wizard = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(hermes_home)], stdin=theirs, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=environment, start_new_session=True,
    )  # fmt: skip
    assert wizard.stdout is not None
    said, waiting = b"", list(lines)
    try:
        with wizard.stdout as output:
            while byte := output.read(1):
                said += byte
                if waiting and said.endswith((b"]: ", b"already): ")):
                    os.write(ours, f"{waiting.pop(0)}\n".encode())
        assert wizard.wait(30) == 0, said.decode()
    finally:
        wizard.kill()
        wizard.wait()
        os.close(ours)
        os.close(theirs)
    return said.decode()


def test_a_choice_is_written_takes_effect_and_is_proved(home: Path, endpoint: FakeEndpoint) -> None:
    (home / "config.yaml").write_text("# mine\nmemory:\n  timezone: UTC\n")
    hermes_home = home.parent
    assert "No model is used" in answer_wizard(hermes_home, "1")
    assert (home / "config.yaml").read_text() == "# mine\nmemory:\n  timezone: UTC\n"

    said = answer_wizard(hermes_home, "2", endpoint.url, "reader", "")
    assert "Model reader" in said
    assert "answers." in said
    assert len(endpoint.calls("check")) == 1
    assert (home / "config.yaml").read_text().startswith("# mine\nmemory:\n  timezone: UTC\n")

    said = answer_wizard(hermes_home, "3")
    assert "llm.offline is now true" in said
    assert "No model is used" in said
    assert len(endpoint.calls("check")) == 1

    assert "Model reader" not in answer_wizard(hermes_home, "1"), "the host's own model is asked for, and there is none"
    assert len(list(hermes_home.glob("config.yaml.bak-*"))) == 0
    assert (hermes_home / "config.yaml").read_text() == "memory:\n  provider: memory_tencentdb\n"
