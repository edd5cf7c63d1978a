"""The pipeline as a whole: real threads, a real store, a model over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_openai import FakeEndpoint, running
from layer_parts import START, ScriptedLLM, capture, remember
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import EmbeddingRefused, EmbeddingTerminal, EmbeddingTransient, LLMTransient
from memory_tencentdb_worker.models import Atom, Completion, CompletionRequest, JobKind, Layer, Origin, Page
from memory_tencentdb_worker.store.sqlite import open_store
from pipeline_parts import Clock, LetterEmbedder, Running, running_pipeline, wait_for

CONFIG = Config()


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with running() as fake:
        yield fake


def atoms(run: Running, scope: str = "") -> list[Atom]:
    rows = run.store.list_rows(Layer.L1, Page(limit=100, ascending=True), scope=scope).rows
    return [row for row in rows if isinstance(row, Atom)]


def model_calls(endpoint: FakeEndpoint) -> int:
    return sum(request.task.startswith("l") for request in endpoint.requests)


def test_a_turn_becomes_atom_scene_and_persona_and_files(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    with running_pipeline(tmp_path, url=endpoint.url, files=True) as run:
        said = capture(run.store, CONFIG, "I am allergic to hazelnuts.", "Noted.")
        run.flush()
        (atom,) = atoms(run)
        assert "hazelnuts" in atom.content
        assert [source.message_id for source in atom.sources] == said.message_ids[:1]
        (scene,) = run.store.scenes("")
        assert scene.sections[0].lines[0].sources == (atom.id,)
        persona = run.store.persona("")
        assert persona is not None
        assert "hazelnuts" in persona.sections[0].lines[0].text
        wait_for(run.pipeline.files_current, "the files")
        assert "hazelnuts" in (tmp_path / "persona.md").read_text(encoding="utf-8")
        assert "hazelnuts" in (tmp_path / "scene_blocks" / f"{scene.name}.md").read_text(encoding="utf-8")
        totals = run.store.calls_since(0)
        assert (totals.calls, totals.tokens_in) == (3, 30)
        assert run.pipeline.last_ok_at("llm") == START


def test_the_schedule_runs_by_itself(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    with running_pipeline(tmp_path, url=endpoint.url) as run:
        capture(run.store, CONFIG, "I like tea.")
        run.pipeline.wake()
        wait_for(lambda: len(atoms(run)) == 1, "the first turn, at once")
        capture(run.store, CONFIG, "I like chess.", now=run.clock())
        run.pass_time(599)
        wait_for(lambda: run.store.scenes(""), "scenes after their delay")
        assert len(atoms(run)) == 1, "a single turn waits for the idle time"
        run.pass_time(2)
        wait_for(lambda: len(atoms(run)) == 2, "the second turn, after the idle time")


def test_turns_that_arrive_during_an_extraction_are_not_forgotten(tmp_path: Path) -> None:
    arrived = threading.Event()

    def slow(request: CompletionRequest) -> Any:
        if not arrived.is_set():
            for number in (2, 3, 4):
                capture(run.store, CONFIG, f"turn {number}", "")
            arrived.set()
        return remember(f"call {len(llm.requests)}")(request)

    llm = ScriptedLLM()
    llm.script("l1-extraction", slow)
    llm.script("l2-scenes", {"operations": []})
    with running_pipeline(tmp_path) as run:
        run.pipeline.use_llm(llm)
        capture(run.store, CONFIG, "turn 1", "")
        run.pipeline.wake()
        wait_for(lambda: arrived.is_set() and not run.store.unextracted("", 10), "all turns to be read")
    assert sum(request.user.count("] [user] [") for request in llm.asked("l1-extraction")) >= 4


def test_terminal_errors_open_the_breaker_and_the_backlog_is_done_when_it_closes(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    endpoint.fail("http", times=-1, status=402)
    with running_pipeline(tmp_path, url=endpoint.url) as run:
        for number in range(10):
            capture(run.store, CONFIG, f"I own {number} cats.", session_key=f"s{number}")
        run.pipeline.wake()
        wait_for(lambda: run.pipeline.breaker_states()["llm"] == "open", "the breaker to open")
        for _ in range(5):
            run.pass_time(9)
        assert model_calls(endpoint) == 1
        (reason,) = run.pipeline.pause_reasons()
        assert (reason.code, reason.since) == ("llm_quota", START)
        assert run.pipeline.last_error("llm") == "402"
        run.pass_time(30)
        opened = run.pipeline.breaker_states
        wait_for(lambda: model_calls(endpoint) == 2 and opened()["llm"] == "open", "one probe")
        endpoint.heal()
        run.pass_time(121)
        wait_for(lambda: len(atoms(run)) == 10, "the backlog")
        assert run.pipeline.pause_reasons() == []


def test_another_model_closes_the_breaker_at_once(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    endpoint.fail("http", times=-1, status=401)
    with running_pipeline(tmp_path, url=endpoint.url) as run:
        capture(run.store, CONFIG, "I like tea.")
        run.pipeline.wake()
        wait_for(lambda: run.pipeline.breaker_states()["llm"] == "open", "the breaker to open")
        llm = ScriptedLLM()
        llm.script("l1-extraction", remember("The user likes tea."))
        run.pipeline.use_llm(llm)
        run.store.make_due(run.clock(), expedite=False)
        run.pipeline.wake()
        wait_for(lambda: len(atoms(run)) == 1, "the new model's atom")
        assert run.pipeline.breaker_states()["llm"] == "closed"


def test_passing_errors_are_tried_again_when_the_endpoint_said(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    endpoint.fail("http", times=1, status=429, retry_after=5)
    with running_pipeline(tmp_path, url=endpoint.url) as run:
        capture(run.store, CONFIG, "I like tea.")
        run.pipeline.wake()
        wait_for(lambda: run.store.job_counts(run.clock()).retrying == 1, "the retry to be noted")
        assert run.pipeline.breaker_states()["llm"] == "closed"
        run.pass_time(4)
        assert len(atoms(run)) == 0
        run.pass_time(1.5)
        wait_for(lambda: len(atoms(run)) == 1, "the retry")


def test_a_defect_in_one_job_does_not_stop_the_others(tmp_path: Path) -> None:
    def answer(request: CompletionRequest) -> Any:
        if "poison" in request.user:
            raise ZeroDivisionError("a defect")
        return remember("The user likes tea.")(request)

    llm = ScriptedLLM()
    llm.script("l1-extraction", answer)
    with running_pipeline(tmp_path) as run:
        run.pipeline.use_llm(llm)
        capture(run.store, CONFIG, "poison", session_key="a")
        capture(run.store, CONFIG, "I like tea.", session_key="b")
        run.pipeline.wake()
        wait_for(lambda: len(atoms(run)) == 1, "the other session")
        wait_for(lambda: run.store.job_counts(run.clock()).retrying == 1, "the failed job to be given back")


class HangingLLM(ScriptedLLM):
    """Answers only when it is closed, and then with an error: like a lane whose child is ended."""

    def complete(self, request: CompletionRequest) -> Completion:
        self.requests.append(request)
        wait_for(lambda: self.closed, "the pipeline to give up the call")
        raise LLMTransient("closed during the call")


def test_stop_abandons_a_call_and_gives_the_job_back(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    llm = HangingLLM()
    with running_pipeline(tmp_path) as run:
        run.pipeline.use_llm(llm)
        capture(run.store, CONFIG, "I like tea.")
        run.pipeline.wake()
        wait_for(lambda: llm.requests, "the call")
        run.pipeline.stop(1)
        counts = run.store.job_counts(run.clock())
        assert (counts.running, counts.retrying, counts.due) == (0, 0, 1)
    with running_pipeline(tmp_path, url=endpoint.url) as run:
        wait_for(lambda: len(atoms(run)) == 1, "the next worker to go on")


def test_job_of_a_worker_that_died_is_taken_up_at_start(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    store = open_store(tmp_path, START)
    capture(store, CONFIG, "I like tea.")
    assert store.lease_job([JobKind.L1], START, 3_600_000, "dead") is not None
    store.close()
    with running_pipeline(tmp_path, url=endpoint.url) as run:
        wait_for(lambda: len(atoms(run)) == 1, "the job")


def test_embedder_in_trouble_costs_no_model_call(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    embedder = LetterEmbedder(trouble=EmbeddingTransient("429", retry_after_seconds=20))
    with running_pipeline(tmp_path, url=endpoint.url) as run:
        run.pipeline.use_embedder(embedder)
        capture(run.store, CONFIG, "I like tea.")
        run.pipeline.wake()
        wait_for(lambda: len(atoms(run)) == 1, "the atom")
        wait_for(lambda: run.pipeline.last_error("embedding") == "429", "the embedder's trouble")
        assert run.store.vector_counts().embedded == 0
        embedder.trouble = None
        run.pass_time(21)
        wait_for(lambda: run.store.vector_counts().embedded == 3, "the vectors")
        assert len(endpoint.calls("l1-extraction")) == 1
        assert run.pipeline.last_error("embedding") == ""


@pytest.mark.parametrize("trouble", [EmbeddingTerminal("401", code="auth"), EmbeddingRefused("768 instead of 26")])
def test_embedder_with_wrong_settings_is_left_alone(tmp_path: Path, trouble: Any) -> None:
    embedder = LetterEmbedder(trouble=trouble)
    with running_pipeline(tmp_path) as run:
        run.pipeline.use_embedder(embedder)
        capture(run.store, CONFIG, "I like tea.")
        run.pipeline.wake()
        wait_for(lambda: run.pipeline.breaker_states()["embedding"] == "open", "the breaker to open")
        run.pass_time(50)
        assert embedder.calls == 1
        assert run.pipeline.pause_reasons()[0].code.startswith("embedding")


def test_refused_text_does_not_hold_up_the_others(tmp_path: Path) -> None:
    with running_pipeline(tmp_path) as run:
        run.pipeline.use_embedder(LetterEmbedder(refuses="zzz"))
        capture(run.store, CONFIG, "hello zzz", "fine")
        run.flush()
        counts = run.store.vector_counts()
        assert (counts.embedded, counts.refused) == (counts.rows - 1, 1)
        assert "refused" in run.pipeline.last_error("embedding")


def test_hand_edit_becomes_a_revision_that_rests_on_the_owners_words(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    with running_pipeline(tmp_path, url=endpoint.url, files=True) as run:
        capture(run.store, CONFIG, "I am allergic to hazelnuts.", "Noted.")
        run.flush()
        path = tmp_path / "persona.md"
        wait_for(lambda: path.exists() and "hazelnuts" in path.read_text(encoding="utf-8"), "persona.md")
        text = path.read_text(encoding="utf-8")
        line = next(line for line in text.splitlines() if "hazelnuts" in line)
        path.write_text(text.replace(line, f"{line}\n- Plays the oboe."), encoding="utf-8")
        run.pipeline.wake()

        def edited() -> bool:
            persona = run.store.persona("")
            return persona is not None and any("oboe" in one.text for part in persona.sections for one in part.lines)

        wait_for(edited, "the edit")
        persona = run.store.persona("")
        assert persona is not None
        sources = {one.text: one.sources for part in persona.sections for one in part.lines}
        evidence = run.store.messages_by_id(sources["Plays the oboe."])
        assert [(message.origin, message.text) for message in evidence] == [(Origin.OWNER_EDIT, "Plays the oboe.")]
        assert run.store.idle()


def test_without_a_model_the_rules_do_the_work(tmp_path: Path) -> None:
    with running_pipeline(tmp_path, clock=Clock()) as run:
        capture(run.store, CONFIG, "My name is Ada Okafor. I am allergic to hazelnuts.", "Noted.")
        run.flush()
        assert len(atoms(run)) == 2
        assert run.store.persona("") is not None
