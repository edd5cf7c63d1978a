"""Memory of the past: what was known and valid at an instant, by the time of speech."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from fake_openai import FakeEndpoint
from layer_parts import START, capture
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.models import Line, NewMessage, NewTurn, Origin, Persona, Role, Section
from memory_tencentdb_worker.recall.answer import Question, Recaller
from memory_tencentdb_worker.recall.deadline import Deadline
from memory_tencentdb_worker.recall.past import read_past
from pipeline_parts import Clock, Running, running_pipeline

DAY = 86_400_000
ONE, TWO = 40, 80
"""How many days after the first value the second and the third one were said."""

THINGS = [
    "drink", "fruit", "colour", "season", "city", "river", "flower", "tree", "bird", "fish", "song", "band",
    "painter", "poet", "novel", "film", "game", "sport", "beach", "lake", "bread", "cheese", "soup", "spice",
    "shoe", "jacket", "chair", "lamp", "font", "keyboard",
]  # fmt: skip
VALUES = ("Alora", "Belvit", "Corsan")


def said(thing: str, version: int) -> str:
    return f"My favourite {thing} these days is {VALUES[version]}{thing}."


def valid_at(day: int) -> dict[str, int]:
    """Thing -> version, with the first value of the n-th thing said on day n."""
    found = {}
    for number, thing in enumerate(THINGS, 1):
        ages = [version for version, later in enumerate((0, ONE, TWO)) if number + later <= day]
        if ages:
            found[thing] = ages[-1]
    return found


@pytest.fixture(scope="module", params=["rules", "model"])
def memory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Thirty facts that changed twice each, taken in today in no order at all."""
    endpoint = FakeEndpoint()
    turns = [
        (number + later, said(thing, version))
        for number, thing in enumerate(THINGS, 1)
        for version, later in enumerate((0, ONE, TWO))
    ]
    random.Random(5).shuffle(turns)
    clock = Clock(START + 200 * DAY)
    url = endpoint.url if request.param == "model" else ""
    with running_pipeline(tmp_path_factory.mktemp("past"), url=url, clock=clock) as running:
        for number, (day, text) in enumerate(turns):
            capture(running.store, Config(), text, "Noted.", now=clock(), at=START + day * DAY, turn_id=f"t{number}")
        running.flush()
        yield running
    endpoint.close()


@pytest.fixture(scope="module")
def recaller(memory: Running) -> Iterator[Recaller]:
    recaller = Recaller(memory.store, Config(), UTC)
    yield recaller
    recaller.close()


def values_in(texts: list[str], thing: str) -> set[str]:
    return {value for value in VALUES for text in texts if f"{value}{thing}" in text}


def lines_of(persona: Persona | None) -> list[str]:
    return [line.text for section in (persona.sections if persona else ()) for line in section.lines]


@pytest.mark.parametrize("day", [20, 60, 115])
def test_recall_search_and_persona_give_exactly_the_facts_valid_then(
    memory: Running, recaller: Recaller, day: int
) -> None:
    instant, valid = START + day * DAY, valid_at(day)
    persona = lines_of(read_past(memory.store, "", instant, 15).persona)
    wrong = []
    for thing in THINGS:
        expected = {VALUES[valid[thing]]} if thing in valid else set()
        query = f"favourite {thing}"
        question = Question(query, "", "asking", now=instant, max_tokens=4_000, as_of=instant)
        answer = recaller.recall(question, "ok", Deadline(20_000))
        found = recaller.search_memories(query, "", limit=3, now=instant, as_of=instant)
        given = {
            "recall": values_in([answer.context], thing),
            "search": values_in([item.text for item in found.items], thing),
            "persona": values_in(persona, thing),
        }
        wrong += [(thing, where, values) for where, values in given.items() if values != expected]
    assert wrong == []
    assert len(persona) == len(valid)


def test_what_is_true_now_needs_no_instant(memory: Running, recaller: Recaller) -> None:
    found = recaller.search_memories("favourite river", "", limit=5, now=memory.clock())
    assert values_in([item.text for item in found.items], "river") == {"Corsan"}


def test_the_answer_says_that_it_was_put_together(memory: Running, recaller: Recaller) -> None:
    question = Question("favourite river", "", "asking", now=memory.clock(), as_of=START + 60 * DAY)
    answer = recaller.recall(question, "ok", Deadline(20_000))
    assert (answer.as_of, answer.assembled) == ("2026-03-02T00:00:00+00:00", True)
    assert "As of 2026-03-02" in answer.append_system_context


def test_an_answer_about_the_past_knows_nothing_of_what_came_later(memory: Running, recaller: Recaller) -> None:
    instant = START + 60 * DAY
    items = recaller.search_memories("favourite river", "", limit=3, now=instant, as_of=instant).items
    assert all(item.valid_to is None for item in items)
    sources = {source for item in items for source in item.sources}
    assert all(message.sent_at <= instant for message in memory.store.messages_by_id(sorted(sources)))


def test_messages_of_the_future_are_not_found(recaller: Recaller) -> None:
    instant = START + 20 * DAY
    found = recaller.search_conversations("favourite", "", limit=100, now=instant, session_key=None, as_of=instant)
    assert len([item for item in found.items if item.role == "user"]) == 20
    assert max(item.at for item in found.items) <= "2026-01-21T00:00:00+00:00"


def test_before_everything_nothing_is_known(recaller: Recaller) -> None:
    answer = recaller.recall(Question("favourite river", "", "asking", now=START, as_of=START), "ok", Deadline(20_000))
    assert (answer.context, answer.memory_count) == ("", 0)


def test_instants_are_read_from_files_that_were_made_later(tmp_path: Path) -> None:
    """The persona of then is the one that stood then, as long as it holds."""
    with running_pipeline(tmp_path, clock=Clock(START)) as running:
        capture(running.store, Config(), "I live in Oslo.", now=START, at=START)
        running.flush()
        first = running.store.persona("")
        running.clock.now += 10 * DAY
        capture(running.store, Config(), "I live in Rome.", now=running.clock(), at=running.clock())
        running.flush()
        then = read_past(running.store, "", START + DAY, 15)
        assert first is not None
        assert lines_of(then.persona) == lines_of(first) == ["The user lives in Oslo."]
        assert [scene.summary for scene in then.scenes] == ["The user lives in Oslo."]
        assert lines_of(read_past(running.store, "", running.clock(), 15).persona) == ["The user lives in Rome."]


def test_a_line_that_joins_a_true_and_an_untrue_fact_gives_way_to_the_true_one(tmp_path: Path) -> None:
    with running_pipeline(tmp_path, clock=Clock(START)) as running:
        store = running.store
        capture(store, Config(), "I live in Oslo. My favourite tea is sencha.", now=START, at=START)
        running.flush()
        home, tea = store.atoms_known_at("", START, 9)
        capture(store, Config(), "I live in Rome.", now=START + DAY, at=START + DAY)
        running.flush()
        joined = Section("About", (Line("Lives in Oslo and drinks sencha.", (home.id, tea.id)),))
        evidence = NewTurn("", "t", "s", "s", (NewMessage(Role.USER, "x", START, Origin.USER),), START, "test")
        store.edit_documents("", [], Persona("", 0, (joined,), START + DAY, "test"), evidence, START + DAY)
        told = lines_of(read_past(store, "", START + DAY, 15).persona)
        assert sorted(told) == ["The user lives in Rome.", "The user's favourite tea is sencha."]
