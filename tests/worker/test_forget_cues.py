"""A request to forget is recognised, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from memory_tencentdb.private import without_private
from memory_tencentdb.turns import flatten
from memory_tencentdb_worker.text.forget_cues import forget_cue


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("Forget that.", ""),
        ("please forget what I just said", ""),
        ("Can you delete that from your memory?", ""),
        ("Don't remember this!", ""),
        ("Forget that I live in Porto.", "I live in Porto"),
        ("Forget everything about my divorce", "my divorce"),
        ("忘掉这件事吧。", ""),
        ("请忘记我刚才说的话", ""),
        ("不要记住这个。", ""),
        ("忘掉我住在杭州这件事", "我住在杭州"),
    ],
)
def test_a_request_is_recognised(text: str, about: str) -> None:
    cue = forget_cue(text)
    assert cue is not None
    assert cue.about == about


@pytest.mark.parametrize(
    "text",
    [
        "Don't forget that I live in Porto.",
        "I forgot that.",
        "Never mind, forget it happened in 2019 and tell me about the plan.",
        "How do I delete that file from the folder?",
        "Did you forget what I said?",
        "She told me to forget that.",
        "Remember this.",
        "别忘了这件事。",
        "我忘了带钥匙。",
        "不要忘记我的生日。",
    ],
)
def test_talk_about_forgetting_is_no_request(text: str) -> None:
    assert forget_cue(text) is None


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a <private>b</private> c", "a [private] c"),
        ("a <PRIVATE>b <private>c</private> d</private> e", "a [private] e"),
        ("a <private>never closed", "a [private]"),
        ("a </private> b", "a </private> b"),
        ("my private life", "my private life"),
    ],
)
def test_what_is_private_is_dropped(text: str, kept: str) -> None:
    assert without_private(text) == kept
    assert flatten([{"type": "text", "text": text}]) == kept
