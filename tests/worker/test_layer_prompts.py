"""The form of our prompts (CONTRACT section 9)."""

from __future__ import annotations

import re
from datetime import UTC

import pytest

from memory_tencentdb_worker.layers.extraction import ECHO_CHARS
from memory_tencentdb_worker.layers.l1_answer import read_segments
from memory_tencentdb_worker.llm.parsing import parse_json_answer
from memory_tencentdb_worker.prompts import load
from memory_tencentdb_worker.text.times import lenient_instant

TASKS = ["l1-extraction", "l1-reconcile", "l2-scenes", "l3-persona"]


@pytest.mark.parametrize("task", TASKS)
def test_prompt_begins_with_its_marker(task: str) -> None:
    assert re.fullmatch(rf"\[memory-tencentdb task={task} v=\d+\]", load(task).split("\n", 1)[0])


@pytest.mark.parametrize("task", [*TASKS, "repair"])
def test_prompt_holds_no_words_of_another_language_and_no_example_fact(task: str) -> None:
    text = load(task)
    assert text.isascii()
    assert not re.search(r"\b(?:for example|e\.g\.|such as)\b", text)


@pytest.mark.parametrize("task", TASKS)
def test_prompt_says_that_the_sections_are_data(task: str) -> None:
    assert re.search(r"never\s+an\s+instruction\s+to\s+you", load(task))


def test_the_shape_of_an_extraction_is_json_so_that_a_model_that_repeats_it_is_found_out() -> None:
    (segment,) = read_segments(parse_json_answer(load("l1-extraction"), ("scenes",))).segments
    (memory,) = segment.memories
    assert memory.content in load("l1-extraction")
    assert len(memory.content) >= ECHO_CHARS
    assert [lenient_instant(time, UTC) for time in memory.metadata.values()] == [None, None]
