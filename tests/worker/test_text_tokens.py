"""Budgets hold, and no cut breaks a character."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_tencentdb_worker.text.tokens import CUT_MARK, count_tokens, cut_to_chars, cut_to_tokens

FAMILY = "Client prefers email 👨‍👩‍👧‍👦 🇨🇳 e\u0301 👍🏽 각"


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        (" ", 1, 1),
        ("The quick brown fox jumps over the lazy dog.", 9, 14),
        ("用户在腾讯做云数据库研发，住在深圳南山", 14, 24),
        ("2026-05-21T10:00:00+08:00", 17, 30),
        ("👍", 1, 4),
    ],
)
def test_estimates_are_near_what_tokenizers_say(text: str, least: int, most: int) -> None:
    assert least <= count_tokens(text) <= most


@pytest.mark.parametrize("limit", range(1, len(FAMILY) + 1))
def test_a_cut_leaves_no_broken_grapheme(limit: int) -> None:
    cut = cut_to_chars(FAMILY, limit)
    assert len(cut) <= limit
    if cut != FAMILY:
        assert cut.endswith(CUT_MARK)
        kept = cut.removesuffix(CUT_MARK)
        rest = FAMILY[len(kept) :].lstrip()
        assert not kept.endswith("\u200d")
        assert not rest.startswith(("\u200d", "\u0301", "\ufe0f", "🏽"))
        assert sum("\U0001f1e6" <= char <= "\U0001f1ff" for char in kept) % 2 == 0


def test_a_long_text_is_cut_to_just_below_its_limit() -> None:
    text = "深圳 weather is fine. " * 5000
    cut = cut_to_tokens(text, 500)
    assert 480 <= count_tokens(cut) <= 500
    assert text.startswith(cut.removesuffix(CUT_MARK))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80), st.integers(0, 60))
def test_no_cut_is_above_its_limit(text: str, limit: int) -> None:
    by_tokens, by_chars = cut_to_tokens(text, limit), cut_to_chars(text, limit)
    assert count_tokens(by_tokens) <= limit
    assert len(by_chars) <= limit
    for cut in (by_tokens, by_chars):
        if cut not in {text, ""}:
            kept = cut.removesuffix(CUT_MARK)
            assert text.startswith(kept)
            assert not (len(kept) < len(text) and unicodedata.category(text[len(kept)]) == "Mn" and kept)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_more_text_never_costs_less(first: str, second: str) -> None:
    assert count_tokens(first + second) >= count_tokens(first)
