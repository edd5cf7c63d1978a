from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fake_openai
from processes import FAST_PIPELINE, ROOT, WorkerProcess

SHARED_TOOLS = ROOT.parent / "shared" / "tools"


def _shared_endpoint_available() -> bool:
    return (SHARED_TOOLS / "fake_llm.py").is_file()


@pytest.fixture(params=["own", "shared"])
def model_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """An OpenAI-style endpoint: our own small one, and the scripted one that other scripts drive us with."""
    if request.param == "own":
        with fake_openai.running() as endpoint:
            yield endpoint.url
        return
    if not _shared_endpoint_available():
        pytest.skip("the second scripted endpoint lies outside this repository; the own one is tested")
    sys.path.insert(0, str(SHARED_TOOLS))
    try:
        fake_llm = importlib.import_module("fake_llm")
        with fake_llm.running() as url:
            yield url
    finally:
        sys.path.remove(str(SHARED_TOOLS))


def worker_config(model_url: str | None = None) -> dict[str, object]:
    config: dict[str, object] = {"memory": {"pipeline": FAST_PIPELINE}}
    if model_url:
        config["llm"] = {"baseUrl": model_url, "apiKey": "sk-test", "model": "fake-model"}
    return config


@pytest.fixture
def worker(tmp_path: Path, model_url: str) -> Iterator[WorkerProcess]:
    process = WorkerProcess(tmp_path / "home", worker_config(model_url))
    process.start()
    yield process
    process.stop()
