"""The rules keep what they promise on the labelled sentences of `scripts/bench offline`."""

from __future__ import annotations

import pytest

from bench.offline import PARTS, read_sentences, scores


def test_there_are_enough_sentences_in_both_languages_and_of_every_kind() -> None:
    sentences = [sentence for path in PARTS.values() for sentence in read_sentences(path)]
    texts = [sentence.text for sentence in sentences]
    assert len(set(texts)) == len(texts) >= 300
    assert min(sum(one.language == language for one in sentences) for language in ("en", "zh")) >= 150
    kinds = {part: {(one.language, one.kind) for one in read_sentences(path)} for part, path in PARTS.items()}
    assert kinds["development"] == kinds["held out"]


@pytest.mark.parametrize(
    ("part", "language", "recall"),
    [("development", "en", 0.97), ("development", "zh", 0.97), ("held out", "en", 0.88), ("held out", "zh", 0.8)],
)
def test_what_is_taken_is_right_and_most_is_taken(part: str, language: str, recall: float) -> None:
    score = scores(PARTS[part])[language]
    assert (score.precision or 0) >= 0.95
    assert (score.recall or 0) >= recall
