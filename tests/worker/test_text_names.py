"""Ids repeat for the same input; scene names are safe file names and stay what they are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.models import AtomType
from memory_tencentdb_worker.text.ids import atom_id, message_id, text_hash, turn_id
from memory_tencentdb_worker.text.names import NAME_LIMIT_BYTES, check_stored_name, scene_file_name


def test_ids_say_the_same_for_the_same() -> None:
    assert message_id("", "s", "t_1", 0) == message_id("", "s", "t_1", 0)
    assert message_id("a", "b", "t", 1) != message_id("ab", "", "t", 1)
    assert message_id("", "s", "t_1", 11) != message_id("", "s", "t_11", 1)
    assert atom_id("", AtomType.PERSONA, "x", ["b", "a"]) == atom_id("", AtomType.PERSONA, "x", ["a", "b", "a"])
    assert len(text_hash("\ud800")) == 64
    assert turn_id() != turn_id()


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Tea and code", "Tea-and-code"),
        ("Tea-and-code.md", "Tea-and-code"),
        ("../x", "x"),
        ("/etc/passwd", "passwd"),
        ("Work / Life", "Work-Life"),
        ("CON", "scene-CON"),
        ("nul.txt", "scene-nul.txt"),
        ("", "scene"),
        ("..", "scene"),
        ("。！", "scene"),
        ("日本　語（テスト）", "日本-語-テスト"),
        (".hidden", "hidden"),
        ("a\x00b\nc", "ab-c"),
    ],
)
def test_a_title_becomes_a_readable_name(title: str, name: str) -> None:
    assert scene_file_name(title, []) == name


def test_a_name_that_is_taken_in_another_spelling_is_that_file() -> None:
    assert scene_file_name("tea and CODE", ["Tea-and-code"]) == "Tea-and-code"
    assert scene_file_name("Tea and code", ["Tea-and-code"]) == "Tea-and-code"


def test_two_long_titles_stay_two_names() -> None:
    first, second = scene_file_name("长" * 300 + "a", []), scene_file_name("长" * 300 + "b", [])
    assert first != second
    assert len(first.encode()) <= NAME_LIMIT_BYTES


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300) | st.text(st.sampled_from("./\\ -_CONmd:*"), max_size=30))
def test_every_name_is_safe_and_stable(title: str) -> None:
    name = scene_file_name(title, [])
    assert check_stored_name(name) == name
    assert scene_file_name(name, []) == name
    assert scene_file_name(f"{name}.md", []) == name
    assert not set(name) & set('/\\:*?"<>| ')
    assert len(name.encode()) <= NAME_LIMIT_BYTES


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", ".x", "x" * 201, "a\x00", "a\nb"])
def test_a_name_that_could_leave_its_directory_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_stored_name(name)
