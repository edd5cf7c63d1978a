"""Passwords behind a colon that follows `is`, in bold, or in a tag, and private spans with loosely written tags."""

from __future__ import annotations

import pytest

from memory_tencentdb.private import without_private
from memory_tencentdb.redaction import SECRET_RULES, find_secrets

SECRET = "Xk39fj2!a"


@pytest.mark.parametrize(
    "text",
    [
        "my password is: {}",
        "密码是：{}",
        "密码为: {}",
        "口令 是 ：“{}”",
        "密码：**{}**",
        "**Password:** {}",
        "**Password**: {}",
        "Password: **{}**",
        "my password is **{}**",
        "<password>{}</password>",
    ],
)
def test_a_password_is_found_behind_colons_bold_marks_and_tags(text: str) -> None:
    written = text.format(SECRET)
    hidden = [written[found.start : found.end] for found in find_secrets(written, SECRET_RULES)]
    assert any(SECRET in each for each in hidden), hidden


@pytest.mark.parametrize(
    "text",
    [
        "密码是：什么？",
        "my password is: forgotten",
        "f(password=**options)",
        "<password>string</password>",
        "密码是：**",
    ],
)
def test_talk_about_a_password_is_left_as_it_is(text: str) -> None:
    assert list(find_secrets(text, SECRET_RULES)) == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a <private\n>b</private\n> c", "a [private] c"),
        ("a <private class='x'>b</private> c", "a [private] c"),
        ("a <privateer>b</privateer> c", "a <privateer>b</privateer> c"),
        ("a <private-key>b", "a <private-key>b"),
    ],
)
def test_a_private_tag_may_hold_line_breaks_and_attributes(text: str, kept: str) -> None:
    assert without_private(text) == kept
