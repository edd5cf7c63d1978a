"""The demonstration promises that every expected fact is recalled with its source; here it has to."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join((str(CHECKOUT), str(CHECKOUT / "worker")))
    line = [sys.executable, str(CHECKOUT / "scripts" / "demo.py"), *arguments]
    return subprocess.run(
        line, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_demo_recalls_every_expected_fact_and_stops_everything() -> None:
    done = run_demo()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every expected fact was recalled" in done.stdout
    assert "Stopped: the worker is gone" in done.stdout
    assert "HASH DIFFERS" not in done.stdout


def test_a_model_that_cannot_be_reached_is_named_before_anything_is_played() -> None:
    done = run_demo("--llm-base-url", "http://127.0.0.1:9/v1", "--llm-model", "nowhere")
    assert done.returncode == 1
    assert "http://127.0.0.1:9/v1" in done.stderr
    assert "does not answer" in done.stderr
    assert "Session" not in done.stdout


def test_the_demo_keeps_its_home_when_asked(tmp_path: Path) -> None:
    done = run_demo("--keep", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stdout + done.stderr
    data = tmp_path / "kept" / "memory_tencentdb" / "data"
    assert "The user lives in Lisbon now." in (data / "persona.md").read_text("utf-8")
    assert not (data.parent / "worker.json").exists()
    told = done.stdout.split("To look into it:")[1].splitlines()
    assert shlex.split(told[1])[1:] == ["start", "--home", str(data.parent)]


@pytest.mark.parametrize("arguments", [["--llm-base-url", "http://127.0.0.1:1/v1"], ["--nonsense"]])
def test_wrong_use_says_why(arguments: list[str]) -> None:
    done = run_demo(*arguments)
    assert done.returncode != 0
    assert "usage:" in done.stderr
