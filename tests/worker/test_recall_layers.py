"""Layers in one recall: facts, what was said, lines of scenes; the quota of each, and no fact twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb.wire import RecallResponse
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.models import Layer
from memory_tencentdb_worker.recall.answer import Question, Recaller
from memory_tencentdb_worker.recall.deadline import Deadline
from memory_tencentdb_worker.recall.pack import Limits, Pack, pack
from memory_tencentdb_worker.recall.rank import Candidate, Ranking
from memory_tencentdb_worker.recall.scene_lines import SceneLine
from memory_tencentdb_worker.text.tokens import count_tokens
from projection_parts import NOW, Memory, section
from service_parts import make_atom, make_message


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path / "data")
    yield made
    made.store.close()


def recall(memory: Memory, query: str, **question: Any) -> RecallResponse:
    recaller = Recaller(memory.store, Config(), UTC)
    try:
        asked = Question(query, "", question.pop("session_id", "asking"), NOW, **question)
        return recaller.recall(asked, "ok", Deadline(2000))
    finally:
        recaller.close()


def layers(answer: RecallResponse) -> list[tuple[str, str]]:
    return [(item.layer, item.text) for item in answer.items]


def fact(number: int, words: int = 60) -> Candidate:
    atom = make_atom(number, f"fact {number} " + "word " * words)
    return Candidate(atom.id, 1.0, atom=atom)


def spoken(number: int, words: int = 60) -> Candidate:
    message = make_message(number, f"said {number} " + "word " * words)
    return Candidate(message.id, 1.0, message=message)


def scene_line(number: int, words: int = 20) -> Candidate:
    atom = make_atom(number, "x")
    line = SceneLine("Garden", f"line {number} " + "word " * words, (atom.id,), (atom,), 1.0)
    return Candidate("Garden", 1.0, line=line)


def packed(*chosen: Candidate, lines: Sequence[Candidate] = (), tokens: int = 600) -> Pack:
    return pack(Ranking((), chosen, (), tuple(lines)), (), Limits(tokens), UTC)


def counts(result: Pack) -> list[int]:
    return [sum(one.layer is layer for one in result.given) for layer in (Layer.L1, Layer.L0, Layer.L2)]


def test_no_layer_crowds_out_another() -> None:
    many = [scene_line(90 + number) for number in range(5)]
    result = packed(*(fact(n) for n in range(1, 20)), *(spoken(n) for n in range(20, 40)), lines=many)
    facts, said, lines = counts(result)
    assert facts > said >= 1
    assert lines >= 1
    assert count_tokens(result.text) == result.tokens <= 600
    assert {one.reason for one in result.dropped} == {"quota", "budget"}


def test_an_unused_quota_goes_to_the_other_layers() -> None:
    alone = packed(*(fact(n) for n in range(1, 20)))
    with_one = packed(*(fact(n) for n in range(1, 20)), spoken(20, words=2))
    assert alone.tokens > 500, "without other layers the facts have it all"
    assert {one.reason for one in alone.dropped} == {"budget"}
    assert counts(with_one)[1] == 1
    assert counts(with_one)[0] >= counts(alone)[0] - 1


def test_the_text_holds_facts_then_what_was_said_then_scenes() -> None:
    result = packed(spoken(1, 2), fact(2, 2), spoken(3, 2), fact(4, 2), lines=[scene_line(5, 2)])
    texts = [line.split("] ", 1)[1] for line in result.text.splitlines()[1:]]
    assert [text.split(" word")[0] for text in texts] == [
        "fact 2", "fact 4", "the user said: said 1", "the user said: said 3", "line 5",
    ]  # fmt: skip
    assert [one.id for one in result.given[:4]] == [spoken(1).id, fact(2).id, spoken(3).id, fact(4).id], "best first"


def test_a_scene_s_line_comes_with_its_file_name_its_date_and_its_facts(memory: Memory) -> None:
    atom = memory.fact("She keeps a greenhouse behind the house")
    memory.write_scene("Garden", section("Plants", ("Tomatoes are her pride every summer", atom)))
    answer = recall(memory, "tomatoes")
    assert layers(answer) == [("L2", "Tomatoes are her pride every summer")]
    line = f"- [2026-05-21] Tomatoes are her pride every summer (scene Garden, {atom})"
    assert answer.prepend_context.splitlines()[1:] == [line]
    assert answer.items[0].id == answer.items[0].scene == "Garden"
    assert [message.text for message in memory.store.messages_by_id(answer.items[0].sources)] == [
        "She keeps a greenhouse behind the house"
    ]
    assert [one.id for one in answer.receipt.given] == ["Garden", atom], "the fact is given as well"


def test_a_line_is_left_out_when_its_fact_is_given_was_given_or_is_visible(memory: Memory) -> None:
    atom = memory.fact("Tomatoes grow in her greenhouse")
    memory.write_scene("Garden", section("Plants", ("The greenhouse holds tomatoes", atom)))
    asked: list[dict[str, Any]] = [{}, {"exclude_ids": (atom,)}, {"session_id": "s", "visible_since": NOW - 1}]
    for question in asked:
        assert "L2" not in dict(layers(recall(memory, "tomatoes", **question))), question


def test_a_line_that_stands_in_the_persona_is_not_given_again(memory: Memory) -> None:
    atom = memory.fact("She keeps a greenhouse")
    memory.write_scene("Garden", section("Plants", ("Tomatoes are her pride", atom)))
    memory.write_persona(section("Home", ("Proud of her tomatoes", atom)))
    assert recall(memory, "tomatoes").items == []


def test_a_line_whose_fact_is_no_longer_true_is_not_given(memory: Memory) -> None:
    old = memory.fact("She keeps a greenhouse")
    memory.write_scene("Garden", section("Plants", ("Tomatoes are her pride", old)))
    memory.learn("The greenhouse is gone", memory.say("The greenhouse is gone", "oh")[:1], supersedes=old)
    assert recall(memory, "tomatoes").items == []


def test_lines_take_only_the_places_that_are_left(memory: Memory) -> None:
    facts = [memory.fact(f"Tomatoes of kind {number}") for number in range(5)]
    other = memory.fact("She keeps a greenhouse")
    memory.write_scene("Garden", section("Plants", ("Tomatoes are her pride", other)))
    answer = recall(memory, "tomatoes")
    assert sorted(item.id for item in answer.items) == sorted(facts)
