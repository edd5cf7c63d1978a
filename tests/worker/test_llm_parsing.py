"""What models write around, inside and instead of their JSON."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_tencentdb_worker.errors import LLMContent
from memory_tencentdb_worker.llm.parsing import parse_json_answer

KEYS = ("scenes",)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("[]", []),
        ('{"scenes": []}', []),
        ('```json\n[{"a": 1,},]\n```', [{"a": 1}]),
        ('Sure, here it is:\n[{"a": 1}]\nHope that helps [1].', [{"a": 1}]),
        ('[{"a": "she said "hi", and left", "b": 2}]', [{"a": 'she said "hi", and left', "b": 2}]),
        ('[{"a": "ends with a "quote""}]', [{"a": 'ends with a "quote"'}]),
        ("[{'a': 'don't', 'b': None, 'c': True}]", [{"a": "don't", "b": None, "c": True}]),
        ('[{"a": NaN, "b": -Infinity, "c": 1e3,}]', [{"a": None, "b": None, "c": 1000.0}]),
        ('[{"a": "line\nbreak\ttab \x01"}]', [{"a": "line\nbreak\ttab \x01"}]),
        ('[{"a": "C:\\path and \\\'", }]', [{"a": "C:\\path and '"}]),
        ('[姓名]）在 [时间]\n[{"a": "茶"}]', [{"a": "茶"}]),
        ('{"a": 1}\n{"a": 2}', [{"a": 1}, {"a": 2}]),
        ('{"result": {"scenes": [{"a": 1}]}}', [{"a": 1}]),
        ('{"other": 1}', {"other": 1}),
        ('[{"a": "draft"}]\nCorrected:\n[{"a": "final"}]', [{"a": "final"}]),
        ('[{"a": 1}]\nNothing else: []', [{"a": 1}]),
        ('[{"a": "about the <think> tag and </think> itself"}]', [{"a": "about the <think> tag and </think> itself"}]),
    ],
)
def test_an_answer_is_found_in_its_wrapping(text: str, answer: object) -> None:
    assert parse_json_answer(text, KEYS) == answer


@pytest.mark.parametrize(
    "text",
    [
        '<think>maybe [{"a": "draft"}]</think>[{"a": "final"}]',
        'maybe [{"a": "draft"}] </think>\n{"scenes": [{"a": "final"}]}',
        '<analysis>\n[{"a": "dra</analysis>\n[{"a": "final"}]',
        'Well. <reasoning>{"scenes": [{"a": "draft"}]}</reasoning>```json\n[{"a": "final"}]\n```',
        '<think>[{"a": "one"}]</think><think>[{"a": "two"}]</think>[{"a": "final"}]',
    ],
)
def test_a_draft_in_reasoning_is_never_the_answer(text: str) -> None:
    assert parse_json_answer(text, KEYS) == [{"a": "final"}]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("The content was filtered.", "no_json"),
        ('<think>perhaps [{"a": "draft"}]', "only_reasoning"),
        ('[{"a": "draft"}]</think>', "only_reasoning"),
        ('[{"content": "a', "truncated"),
        ('[{"a": 1}, {"b": ', "truncated"),
        ('[{"a": 1}, {"b": oops}, {"c": 3}]', "malformed"),
        ('For example []. Now: [{"a": oops}]', "malformed"),
        ('{"scenes": [{"a": 1}, oops, {"scenes": [{"b": 2}]}]}', "malformed"),
    ],
)
def test_what_cannot_be_read_as_a_whole_is_no_answer(text: str, code: str) -> None:
    with pytest.raises(LLMContent) as caught:
        parse_json_answer(text, KEYS)
    assert (caught.value.code, caught.value.raw) == (code, text)


def test_a_truncated_answer_is_trusted_only_when_its_value_ends_the_text() -> None:
    assert parse_json_answer('```json\n[{"a": 1}]\n```', KEYS, truncated=True) == [{"a": 1}]
    with pytest.raises(LLMContent) as caught:
        parse_json_answer('[{"a": 1}]\nand then', KEYS, truncated=True)
    assert caught.value.code == "truncated"


def test_without_keys_the_whole_object_comes_back() -> None:
    text = 'Here: {"operations": [], "persona_update_reason": "moved"}'
    assert parse_json_answer(text, ()) == {"operations": [], "persona_update_reason": "moved"}


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 5_000, '[{"' * 5_000, '"' * 50_000, "[{'a': '" + "'x, " * 5_000]
)
def test_hostile_text_is_answered_soon(text: str) -> None:
    begun = time.monotonic()
    with pytest.raises(LLMContent):
        parse_json_answer(text, KEYS)
    assert time.monotonic() - begun < 3


_TEXT = st.text(alphabet="ab \"'\\{}[],:<>/\n\u2028茶", max_size=12)
_LEAF = st.none() | st.booleans() | st.integers() | _TEXT
_OBJECT = st.dictionaries(_TEXT, _LEAF | st.lists(_LEAF, max_size=3), min_size=1, max_size=3)


@given(st.lists(_OBJECT, min_size=1, max_size=4))
@settings(max_examples=60)
def test_sound_json_is_always_read_as_it_is(items: list[dict[str, object]]) -> None:
    assert parse_json_answer(f"Here you are:\n```json\n{json.dumps(items)}\n```", ()) == items


@given(st.text(alphabet="[]{}\"':,\\ab1<>/think \n", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(LLMContent):
        parse_json_answer(text, KEYS)
