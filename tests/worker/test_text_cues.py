"""What a question gives away about the memory it asks for."""

from __future__ import annotations

from datetime import UTC

import pytest

from memory_tencentdb_worker.models import NO_PREFERENCE, Role
from memory_tencentdb_worker.text.cues import asks_for_past, read_preference

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("What did you recommend for dinner?", Role.ASSISTANT),
        ("which book have you once suggested", Role.ASSISTANT),
        ("what was your advice about sleep", Role.ASSISTANT),
        ("你给我推荐过哪些画家？", Role.ASSISTANT),
        ("Which film did I tell you about?", Role.USER),
        ("what have I said about my boss", Role.USER),
        ("我和你分享过什么秘密？", Role.USER),
        ("Where does my sister live?", Role.USER),
        ("我的生日是哪天", Role.USER),
        ("What is the capital of Peru?", None),
        ("When did Dora go to the museum?", None),
    ],
)
def test_whose_words_are_wanted_is_read_from_the_question(text: str, role: Role | None) -> None:
    assert read_preference(text, NOW, UTC).role is role


@pytest.mark.parametrize("text", ["my latest address", "What is my current job?", "我现在住在哪里", "上次我们聊了什么"])
def test_the_latest_is_preferred_when_it_is_asked_for(text: str) -> None:
    assert read_preference(text, NOW, UTC).latest


@pytest.mark.parametrize("text", ["Where do I live?", "I know the way", "我住在哪里"])
def test_recency_plays_no_part_otherwise(text: str) -> None:
    assert not read_preference(text, NOW, UTC).latest
    assert not asks_for_past(text)


@pytest.mark.parametrize(
    "text",
    [
        "Where did I live before I moved?",
        "my previous employer",
        "Where did I use to live? I used to know",
        "我以前住在哪",
    ],
)
def test_the_past_is_asked_for_by_its_words(text: str) -> None:
    assert asks_for_past(text)


def test_a_plain_text_prefers_nothing() -> None:
    assert read_preference("deploy key of the staging server", NOW, UTC) == NO_PREFERENCE


def test_of_a_pasted_page_only_the_end_is_read() -> None:
    page = "yesterday you recommended the latest " * 3_000
    assert read_preference(page + "x " * 1_000, NOW, UTC) == NO_PREFERENCE
