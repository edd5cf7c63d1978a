"""Other spellings of one word."""

from __future__ import annotations

import pytest

from memory_tencentdb_worker.text.script_forms import script_forms
from memory_tencentdb_worker.text.word_forms import word_forms


@pytest.mark.parametrize(
    ("term", "other"),
    [
        ("貓", "猫"), ("猫", "貓"), ("廚房", "厨房"), ("颱風", "台风"), ("电脑", "電腦"),
        ("リンゴ", "りんご"), ("りんご", "リンゴ"), ("ラーメン", "らーめん"),
        ("2.4.17", "v2.4.17"), ("v2.4.17", "2.4.17"),
    ],
)  # fmt: skip
def test_the_other_spelling_is_asked_for_too(term: str, other: str) -> None:
    assert other in list(script_forms(term))
    assert word_forms(term)[0] == term


@pytest.mark.parametrize("term", ["cat", "3", "v2", "天", "고양이", "müller", "src/main.py"])
def test_most_words_have_one_spelling(term: str) -> None:
    assert list(script_forms(term)) == []
    assert word_forms(term) == (term,)


def test_irregular_english_forms_are_kept() -> None:
    assert set(word_forms("went")) == {"go", "went", "gone"}
