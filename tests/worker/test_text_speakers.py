"""Names before messages."""

from __future__ import annotations

import pytest

from memory_tencentdb_worker.text.speakers import speaker_of, without_names, without_speaker


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("Philippa: I went hiking", "philippa", "I went hiking"),
        ("[Ann Lee]: hello: you", "ann lee", "hello: you"),
        ("小明：我去了海边", "小明", "我去了海边"),
        ("no name at all", "", "no name at all"),
        ("Ann:", "ann", "Ann:"),
        ("", "", ""),
    ],
)
def test_the_name_and_what_was_said(text: str, name: str, said: str) -> None:
    assert speaker_of(text) == name
    assert without_speaker(text) == said


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("What did Philippa tell Ann?", "What did tell ?"),
        ("philippa's sister", "sister"),
        ("Where does Annabel live?", "Where does Annabel live?"),
        ("Philippa", "Philippa"),
    ],
)
def test_names_are_taken_out_unless_nothing_would_be_left(question: str, left: str) -> None:
    assert without_names(question, {"philippa", "ann lee"}) == left


def test_without_names_nothing_changes() -> None:
    assert without_names("  as it  is ", ()) == "  as it  is "
