"""What counts is when something was said, not when it was read; and when it happens, as the words say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from layer_parts import MINUTE, START, ScriptedLLM, capture, lease, message_ids, parts_of, records, reply_to_new
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.layers import l1_atoms
from memory_tencentdb_worker.layers.order import last_said
from memory_tencentdb_worker.models import Atom, Filter, JobKind, Source
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.sqlite import open_store
from memory_tencentdb_worker.text.times import iso_local

DAY = 86_400_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path, START)
    yield opened
    opened.close()


@dataclass(frozen=True)
class Stated:
    id: str
    sources: Sequence[Source]


def say(store: Store, text: str, *, at: int, now: int) -> Stated:
    answer = capture(store, Config(), text, "", at=at, now=now)
    (message,) = store.messages_by_id(answer.message_ids)
    return Stated(text, (Source(message.id, message.hash),))


def order_of(store: Store, *stated: Stated) -> list[str]:
    said = last_said(stated, store)
    return sorted(said, key=lambda id: said[id])


def test_the_time_of_speech_decides_not_the_order_of_arrival(store: Store) -> None:
    new = say(store, "new", at=START, now=START)
    old = say(store, "old", at=START - DAY, now=START + MINUTE)
    assert order_of(store, new, old) == ["old", "new"]


def test_equal_times_keep_the_order_of_arrival(store: Store) -> None:
    first, second = (say(store, text, at=START, now=START) for text in ("first", "second"))
    assert order_of(store, second, first) == ["first", "second"]


def test_a_time_in_the_future_says_nothing(store: Store) -> None:
    first = say(store, "first", at=START + 900 * DAY, now=START)
    second = say(store, "second", at=START + 1, now=START + 1)
    assert order_of(store, second, first) == ["first", "second"]


def test_a_clock_that_was_set_back_does_not_make_old_words_the_newest(store: Store) -> None:
    ahead = START + 900 * DAY
    first = say(store, "first", at=ahead, now=ahead)
    second = say(store, "second", at=START, now=START + 5)
    assert order_of(store, second, first) == ["first", "second"]


def extract(store: Store, llm: ScriptedLLM | None, now: int, config: Config | None = None) -> None:
    l1_atoms.run(lease(store, JobKind.L1, now), parts_of(store, config or Config(), llm), now)


def atoms(store: Store, query: str, *, gone: bool = True) -> dict[str, Atom]:
    hits = store.search_atoms(query, Filter("", superseded=gone), 20)
    return {hit.atom.content: hit.atom for hit in hits}


def test_a_value_changed_twice_in_one_batch_leaves_its_history(store: Store) -> None:
    for number, city in enumerate(("Oslo", "Rome", "Lima")):
        capture(store, Config(), f"I live in {city}.", at=START + number * DAY, now=START + 9 * DAY)
    extract(store, None, START + 9 * DAY)
    found = atoms(store, "lives")
    validity = [(found[f"The user lives in {city}."].valid_from, found[f"The user lives in {city}."].valid_to)
                for city in ("Oslo", "Rome", "Lima")]  # fmt: skip
    assert validity == [(START, START + DAY), (START + DAY, START + 2 * DAY), (START + 2 * DAY, None)]


def test_a_chinese_favourite_is_one_at_a_time(store: Store) -> None:
    for number, colour in enumerate(("蓝色", "绿色", "红色")):
        capture(store, Config(), f"我最喜欢的颜色是{colour}。", at=START + number * DAY, now=START + 9 * DAY)
    extract(store, None, START + 9 * DAY)
    known = [[atom.content for atom in store.atoms_known_at("", START + day * DAY, 10)] for day in range(3)]
    assert known == [[f"用户最喜欢的颜色是{colour}。"] for colour in ("蓝色", "绿色", "红色")]


def test_statements_of_one_batch_meet_each_other(store: Store) -> None:
    def both(request: object) -> object:
        memories = [
            {"content": f"The user's favourite tea is {text[-7:-1]}.", "type": "persona", "source_message_ids": [id]}
            for text, id in message_ids(request).items()  # type: ignore[arg-type]
            if "tea" in text
        ]
        return [{"scene_name": "tea", "message_ids": [], "memories": memories}]

    llm = ScriptedLLM()
    llm.script("l1-extraction", both)
    llm.script("l1-reconcile", reply_to_new("update"))
    capture(store, Config(), "My favourite tea is sencha.", at=START, now=START)
    capture(store, Config(), "My favourite tea is oolong.", at=START + DAY, now=START + DAY)
    extract(store, llm, START + DAY)
    (request,) = llm.asked("l1-reconcile")
    assert len(records(request, "new")) == 1
    found = atoms(store, "favourite tea")
    assert [content for content, atom in found.items() if atom.live] == ["The user's favourite tea is oolong."]
    gone = found["The user's favourite tea is sencha."]
    assert (gone.valid_from, gone.valid_to) == (START, START + DAY)


@pytest.mark.parametrize(
    ("content", "zone", "expected"),
    [
        ("The user flew to Oslo yesterday.", "Europe/Berlin", "2026-03-28T00:00:00+01:00"),
        ("The user has an exam tomorrow.", "Europe/Berlin", "2026-03-30T00:00:00+02:00"),
        ("用户昨天去了医院。", "Asia/Shanghai", "2026-03-28T00:00:00+08:00"),
    ],
)
def test_an_event_without_a_time_is_dated_from_its_words(store: Store, content: str, zone: str, expected: str) -> None:
    said_at = START + 87 * DAY + 12 * 60 * MINUTE  # noon of 2026-03-29 in UTC, the day of the clock change in Berlin
    llm = ScriptedLLM()
    llm.script(
        "l1-extraction",
        lambda request: [
            {
                "scene_name": "s",
                "memories": [
                    {"content": content, "type": "episodic", "source_message_ids": list(message_ids(request).values())}
                ],
            }
        ],
    )
    capture(store, Config(), f"{content} Truly.", at=said_at, now=said_at)
    parts = replace(parts_of(store, Config(), llm), zone=ZoneInfo(zone))
    l1_atoms.run(lease(store, JobKind.L1, said_at), parts, said_at)
    (atom,) = atoms(store, content).values()
    assert atom.activity_start is not None
    assert iso_local(atom.activity_start, ZoneInfo(zone)) == expected


def test_an_older_message_that_says_the_same_makes_the_fact_older(store: Store) -> None:
    capture(store, Config(), "I live in Oslo.", at=START, now=START)
    extract(store, None, START)
    capture(store, Config(), "I live in Oslo.", at=START - DAY, now=START + MINUTE, session_key="s2")
    extract(store, None, START + MINUTE)
    (atom,) = atoms(store, "lives").values()
    assert (atom.valid_from, len(atom.sources)) == (START - DAY, 2)
    then = store.atoms_known_at("", START - DAY + 1, 10)
    assert [one.content for one in then] == ["The user lives in Oslo."]


def test_the_later_value_still_ends_the_earlier_when_the_earlier_comes_last(store: Store) -> None:
    for number, (city, at) in enumerate((("Lima", 2), ("Oslo", 0), ("Rome", 1))):
        capture(
            store, Config(), f"I live in {city}.", at=START + at * DAY, now=START + 9 * DAY, session_key=f"s{number}"
        )
        extract(store, None, START + 9 * DAY)
    known = [[atom.content for atom in store.atoms_known_at("", START + day * DAY + 1, 10)] for day in range(3)]
    assert known == [[f"The user lives in {city}."] for city in ("Oslo", "Rome", "Lima")]
