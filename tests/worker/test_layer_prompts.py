"""The form of our prompts (CONTRACT section 9)."""

from __future__ import annotations

import re

import pytest

from memory_tencentdb_worker.prompts import load

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
