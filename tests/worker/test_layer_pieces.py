"""L1 with turns that are longer than a call should be: cut at sentences, read whole, none of their facts lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_openai_answers import compute
from layer_parts import START, Cut, ScriptedLLM, capture, lease, parts_of, section
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import LLMContent, LLMTransient
from memory_tencentdb_worker.layers import l1_atoms
from memory_tencentdb_worker.layers.outcome import Done, Outcome, Retry
from memory_tencentdb_worker.layers.parts import Parts
from memory_tencentdb_worker.layers.pieces import cut_text
from memory_tencentdb_worker.models import Atom, CompletionRequest, JobKind, Layer, Page
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.sqlite import open_store

CONFIG = Config()
TASK = "l1-extraction"
FACTS = [f"I own lighthouse number {number}." for number in range(60)]
STORY = " ".join(f"{fact} {'The sea was calm and the lamp was lit. ' * 20}" for fact in FACTS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data", START)
    yield opened
    opened.close()


@pytest.fixture
def llm() -> ScriptedLLM:
    return ScriptedLLM()


def extract(store: Store, parts: Parts) -> Outcome:
    return l1_atoms.run(lease(store, JobKind.L1, START), parts, START)


def atoms(store: Store) -> list[Atom]:
    rows = store.list_rows(Layer.L1, Page(limit=200, ascending=True), scope="").rows
    return [row for row in rows if isinstance(row, Atom)]


def sentences_about_lighthouses(request: CompletionRequest) -> Any:
    return {"scenes": compute(TASK, request.user)}


def test_every_fact_of_a_very_long_turn_is_kept_and_rests_on_it(store: Store, llm: ScriptedLLM) -> None:
    said = capture(store, CONFIG, STORY, "What a story.").message_ids[0]
    llm.script(TASK, sentences_about_lighthouses)
    assert extract(store, parts_of(store, CONFIG, llm)) == Done(len(FACTS))
    assert len(llm.asked(TASK)) == 5
    known = atoms(store)
    assert all(any(fact in atom.content for atom in known) for fact in FACTS)
    assert {source.message_id for atom in known for source in atom.sources} == {said}
    assert store.unextracted("", 10) == []


@pytest.mark.parametrize("trouble", [LLMContent("too many tokens", code="context_length"), Cut('{"scenes": [')])
def test_a_piece_that_is_still_too_long_is_halved(store: Store, llm: ScriptedLLM, trouble: object) -> None:
    capture(store, CONFIG, STORY, "")

    def answer(request: CompletionRequest) -> Any:
        return trouble if len(section(request, "messages")) > 4_000 else sentences_about_lighthouses(request)

    llm.script(TASK, answer)
    assert extract(store, parts_of(store, CONFIG, llm)) == Done(len(FACTS))


def test_a_failure_in_the_middle_does_not_pay_for_the_beginning_again(store: Store, llm: ScriptedLLM) -> None:
    capture(store, CONFIG, STORY, "")
    parts = parts_of(store, CONFIG, llm)
    good = sentences_about_lighthouses
    llm.script(TASK, good, good, LLMTransient("busy"), good)
    assert isinstance(extract(store, parts), Retry)
    assert atoms(store) == []
    again = store.lease_job([JobKind.L1], START + 10_000_000, 300_000, "later")
    assert again is not None
    assert l1_atoms.run(again, parts, START) == Done(len(FACTS))
    assert len(llm.asked(TASK)) == 5 + 1


def test_the_cap_grows_with_the_batch(store: Store, llm: ScriptedLLM) -> None:
    """The manual's number is that of a run over five turns."""
    for turn in range(10):
        capture(store, CONFIG, " ".join(FACTS[turn * 4 : turn * 4 + 4]), "Fine.")
    llm.script(TASK, sentences_about_lighthouses)
    assert extract(store, parts_of(store, CONFIG, llm)) == Done(40)


def test_what_was_read_before_is_shown_shortened(store: Store, llm: ScriptedLLM) -> None:
    parts = parts_of(store, CONFIG, llm)
    capture(store, CONFIG, "Once upon a time. " + "x" * 5_000 + " The end.", "")
    extract(store, parts)
    capture(store, CONFIG, "And now?", "")
    extract(store, parts)
    background = section(llm.requests[-1], "background")
    assert len(background) < 600
    assert "Once upon" in background
    assert "The end." in background


@pytest.mark.parametrize("text", ["", "word " * 900, "一句话。" * 900, "x" * 5_000, "a\n\nb" * 1_000])
def test_cut_text_loses_nothing_and_ends_where_a_sentence_does(text: str) -> None:
    parts = cut_text(text, 1_000)
    assert "".join(parts) == text
    assert all(len(part) <= 1_000 for part in parts)
    if "。" in text:
        assert all(part.endswith("。") for part in parts[:-1])
