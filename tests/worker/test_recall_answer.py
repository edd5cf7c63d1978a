"""Recall and search over a real store: what is found, by which arm, and what a slow or dead part costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb.wire import RecallResponse
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import Busy, EmbeddingTransient, StoreError
from memory_tencentdb_worker.models import AtomHit, AtomType, Filter
from memory_tencentdb_worker.recall.answer import Question, Recaller
from memory_tencentdb_worker.recall.arms import ArmPool
from memory_tencentdb_worker.recall.deadline import Deadline
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from service_parts import MARCH_5, WordEmbedder, embed_all, learn, say


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = open_store(tmp_path / "data", MARCH_5)
    yield opened
    opened.close()


def config(**recall: Any) -> Config:
    return Config.model_validate({"memory": {"recall": recall}})


class Asker:
    def __init__(self, store: SqliteStore, settings: Config | None = None) -> None:
        self.recaller = Recaller(store, settings or Config(), UTC)

    def recall(self, query: str, *, deadline_ms: int = 2000, **question: Any) -> RecallResponse:
        asked = Question(query, question.pop("scope", ""), question.pop("session_id", "now"), MARCH_5, **question)
        return self.recaller.recall(asked, "ok", Deadline(deadline_ms))


@pytest.fixture
def asker(store: SqliteStore) -> Iterator[Asker]:
    made = Asker(store)
    yield made
    made.recaller.close()


def test_a_fact_said_one_turn_ago_is_found_before_any_extraction(store: SqliteStore, asker: Asker) -> None:
    (message, _) = say(store, "My dentist is called Dr. Okafor", "Noted.", session_id="earlier")
    answer = asker.recall("who is my dentist?")
    assert [item.id for item in answer.items] == [message]
    assert f"- [2026-03-05] the user said: My dentist is called Dr. Okafor ({message})" in answer.prepend_context
    assert (answer.strategy, answer.memory_count) == ("keyword", 1)
    assert answer.receipt.used_tokens <= answer.receipt.budget_tokens
    assert [one.id for one in answer.receipt.given] == [message]


def test_the_atom_is_shown_instead_of_its_message(store: SqliteStore, asker: Asker) -> None:
    (message,) = say(store, "I moved to Lisbon in March")
    atom = learn(store, "The user moved to Lisbon in March.", message)
    answer = asker.recall("Lisbon")
    assert [item.id for item in answer.items] == [atom]
    assert answer.items[0].sources == [message]


def test_two_character_chinese_words_and_glued_latin_words_are_found(store: SqliteStore, asker: Asker) -> None:
    (message,) = say(store, "我喜欢用Python写代码,最怕打针", session_id="other")
    assert [item.id for item in asker.recall("打针").items] == [message]
    assert [item.id for item in asker.recall("python").items] == [message]


def test_common_words_do_not_drown_the_match(store: SqliteStore, asker: Asker) -> None:
    for number in range(40):
        say(store, f"I am in the place number {number} and what is it")
    (wanted,) = say(store, "deploy key rotates Friday")
    assert asker.recall("what is the deploy key").items[0].id == wanted


@pytest.mark.parametrize("query", ["", "   ", "?!", "🙂"])
def test_a_query_without_a_letter_gives_the_stable_part_only(store: SqliteStore, asker: Asker, query: str) -> None:
    (message,) = say(store, "Always answer in French")
    learn(store, "Always answer in French.", message, type=AtomType.INSTRUCTION, priority=-1)
    answer = asker.recall(query)
    assert (answer.items, answer.prepend_context, answer.memory_count, answer.strategy) == ([], "", 0, "none")


def test_standing_rules_are_given_whatever_is_asked(store: SqliteStore, asker: Asker) -> None:
    (message,) = say(store, "Always answer in French")
    rule = learn(store, "Always answer in French.", message, type=AtomType.INSTRUCTION, priority=-1)
    assert [item.id for item in asker.recall("weather tomorrow").items] == [rule]
    assert asker.recall("weather tomorrow", exclude_ids=(rule,)).items == []


def test_another_scope_is_never_seen(store: SqliteStore, asker: Asker) -> None:
    say(store, "The alarm code is 4711", scope="alice")
    assert asker.recall("alarm code", scope="bob").items == []
    assert asker.recall("alarm code", scope="Alice").items == []
    assert len(asker.recall("alarm code", scope="alice").items) == 1
    assert asker.recaller.search_memories("alarm", "", limit=5, now=MARCH_5).items == []
    assert asker.recaller.search_conversations("alarm code", "", limit=5, now=MARCH_5, session_key=None).items == []


def test_a_query_of_twenty_thousand_characters_is_answered(store: SqliteStore, asker: Asker) -> None:
    (message,) = say(store, "The boiler was serviced in May")
    answer = asker.recall("boiler " + "lorem ipsum dolor " * 1200)
    assert [item.id for item in answer.items] == [message]


def test_meaning_finds_what_shares_no_word(store: SqliteStore, asker: Asker) -> None:
    (message,) = say(store, "A puppy came home with us")
    embedder = WordEmbedder()
    embed_all(store, embedder)
    asker.recaller.use_embedder(embedder)
    answer = asker.recall("dog")
    assert [item.id for item in answer.items] == [message]
    assert (answer.strategy, answer.receipt.arms["vectors"]["state"]) == ("embedding", "ok")
    found = asker.recaller.search_conversations("dog", "", limit=5, now=MARCH_5, session_key=None)
    assert ([item.id for item in found.items], found.strategy) == ([message], "embedding")


def test_unrelated_memories_are_not_given_although_they_are_the_nearest(store: SqliteStore, asker: Asker) -> None:
    say(store, "A puppy came home with us")
    embedder = WordEmbedder()
    embed_all(store, embedder)
    asker.recaller.use_embedder(embedder)
    answer = asker.recall("dinner")
    assert answer.items == []
    assert {one.reason for one in answer.receipt.dropped} == {"weak"}


def test_words_answer_alone_when_the_embedder_misses_its_share(store: SqliteStore, asker: Asker) -> None:
    (message,) = say(store, "Our dog is called Biscuit")
    embed_all(store, WordEmbedder())
    asker.recaller.use_embedder(WordEmbedder(delay_seconds=1.0))
    started = time.monotonic()
    answer = asker.recall("dog", deadline_ms=200)
    assert time.monotonic() - started < 0.5
    assert [item.id for item in answer.items] == [message]
    assert (answer.strategy, answer.receipt.arms["vectors"]["state"]) == ("keyword", "late")


def test_a_dead_embedder_is_left_alone_after_three_failures(store: SqliteStore, asker: Asker) -> None:
    (message,) = say(store, "Our dog is called Biscuit")
    embedder = WordEmbedder(error=EmbeddingTransient("down"))
    store.use_space(embedder.space)
    asker.recaller.use_embedder(embedder)
    answers = [asker.recall("dog") for _ in range(5)]
    assert all([item.id for item in answer.items] == [message] for answer in answers)
    states = [answer.receipt.arms["vectors"]["state"] for answer in answers]
    assert states == ["failed", "failed", "failed", "paused", "paused"]
    assert embedder.calls == 3


class SlowStore:
    """The real store, with searches that take their time or fail."""

    def __init__(self, store: SqliteStore, *, seconds: float = 0.0, error: StoreError | None = None) -> None:
        self._store, self._seconds, self._error = store, seconds, error

    def search_atoms(self, query: str, filter: Filter, limit: int) -> Sequence[AtomHit]:
        time.sleep(self._seconds)
        if self._error is not None:
            raise self._error
        return self._store.search_atoms(query, filter, limit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_slow_store_costs_no_more_than_the_deadline(store: SqliteStore) -> None:
    (message,) = say(store, "Always answer in French")
    rule = learn(store, "Always answer in French.", message, type=AtomType.INSTRUCTION, priority=-1)
    asker = Asker(SlowStore(store, seconds=0.4))  # type: ignore[arg-type]
    started = time.monotonic()
    answer = asker.recall("French", deadline_ms=100)
    assert time.monotonic() - started < 0.3
    assert answer.receipt.arms["words"]["state"] == "late"
    assert [item.id for item in answer.items] == [rule], "what was there in time is given"
    asker.recaller.close()
    time.sleep(0.5)  # the late arm still uses the store


def test_a_failing_store_is_an_error_and_not_an_empty_answer(store: SqliteStore) -> None:
    asker = Asker(SlowStore(store, error=StoreError("cannot read")))  # type: ignore[arg-type]
    with pytest.raises(StoreError):
        asker.recall("anything")
    asker.recaller.close()


def test_work_that_hangs_is_counted_and_not_piled_up() -> None:
    pool, release = ArmPool("test", 2), threading.Event()
    hanging = [pool.start(release.wait) for _ in range(2)]
    with pytest.raises(Busy):
        pool.start(release.wait)
    release.set()
    assert all(future.result(5) for future in hanging)
    assert pool.start(lambda: "again").result(5) == "again"
    pool.close()


def test_type_scene_and_limit_are_honoured(store: SqliteStore, asker: Asker) -> None:
    (message,) = say(store, "Facts about coffee")
    espresso = learn(store, "Drinks coffee every morning.", message, scene_name="Morning routine")
    learn(store, "Bought coffee on Monday.", message, type=AtomType.EPISODIC, scene_name="Shopping")
    search = asker.recaller.search_memories
    assert [item.id for item in search("coffee", "", limit=5, now=MARCH_5, type=AtomType.PERSONA).items] == [espresso]
    assert [item.id for item in search("coffee", "", limit=5, now=MARCH_5, scene="morning").items] == [espresso]
    assert search("coffee", "", limit=1, now=MARCH_5).total == 1
    text = search("coffee", "", limit=5, now=MARCH_5, scene="morning").results
    assert text.startswith("Found 1 memory:\n- [2026-03-05] Drinks coffee every morning. (")
    assert espresso in text
    assert search("tea", "", limit=5, now=MARCH_5).results == "No memory matches."


def test_conversations_are_filtered_by_session(store: SqliteStore, asker: Asker) -> None:
    (first,) = say(store, "coffee one", session_key="a")
    (second,) = say(store, "coffee two", session_key="b")
    search = asker.recaller.search_conversations
    assert {item.id for item in search("coffee", "", limit=5, now=MARCH_5, session_key=None).items} == {first, second}
    found = search("coffee", "", limit=5, now=MARCH_5, session_key="b")
    assert [item.id for item in found.items] == [second]
    assert "the user said: coffee two" in found.results


def test_a_huge_message_is_shown_where_it_fits_the_query(store: SqliteStore, asker: Asker) -> None:
    (message,) = say(store, "line of a log " * 40_000 + "kernel panic at boot " + "line of a log " * 4_000)
    (item,) = asker.recall("kernel panic").items
    assert item.id == message
    assert "kernel panic at boot" in item.text
    found = asker.recaller.search_conversations("kernel panic", "", limit=5, now=MARCH_5, session_key=None)
    assert "kernel panic at boot" in found.results
    assert len(found.results) < 3_000


def test_keyword_strategy_never_asks_the_embedder(store: SqliteStore) -> None:
    say(store, "A puppy came home")
    embedder = WordEmbedder()
    embed_all(store, embedder)
    asker = Asker(store, config(strategy="keyword"))
    asker.recaller.use_embedder(embedder)
    before = embedder.calls
    assert asker.recall("dog").items == []
    assert embedder.calls == before
    asker.recaller.close()


@pytest.mark.parametrize("embedder", [None, WordEmbedder(error=EmbeddingTransient("down"))])
def test_embedding_strategy_falls_back_to_words(store: SqliteStore, embedder: WordEmbedder | None) -> None:
    (message,) = say(store, "A puppy came home")
    atom = learn(store, "Has a puppy.", message)
    asker = Asker(store, config(strategy="embedding"))
    asker.recaller.use_embedder(embedder)
    assert [item.id for item in asker.recall("puppy").items] == [atom]
    asker.recaller.close()


@pytest.mark.parametrize("filler", ["我昨天在图书馆遇到老朋友", "an_unbroken-run/of.words ", "日本語のとても長い質問"])
def test_a_long_question_keeps_to_its_deadline_and_is_known_by_its_ends(
    store: SqliteStore, asker: Asker, filler: str
) -> None:
    (dog, _) = say(store, "My dog is called Bolt", "Noted.", session_id="earlier")
    (boat, _) = say(store, "The boat Halcyon lies in Bergen", "Noted.", session_id="earlier")
    asker.recall("词典先要读进来", deadline_ms=5000)
    query = f"who is Bolt? {filler * (90_000 // len(filler))} and where is Halcyon?"
    answer = asker.recall(query, deadline_ms=1000)
    assert {dog, boat} <= {item.id for item in answer.items}
    assert answer.receipt.elapsed_ms < 1000


def test_a_search_waits_for_a_hung_embedder_no_longer_than_a_turn_can_bear(store: SqliteStore, asker: Asker) -> None:
    class Hung(WordEmbedder):
        asked_seconds = 0.0

        def embed(self, texts: Sequence[str], *, kind: str, timeout_seconds: float) -> list[list[float] | None]:
            self.asked_seconds = timeout_seconds
            raise EmbeddingTransient("no answer in time")

    learn(store, "The user likes tea", say(store, "I like tea")[0])
    hung = Hung()
    asker.recaller.use_embedder(hung)
    answer = asker.recaller.search_memories("tea", "", limit=3, now=MARCH_5)
    assert (answer.total, answer.strategy) == (1, "keyword")
    assert 0 < hung.asked_seconds <= 1.5


def test_a_session_that_has_said_much_about_it_still_hears_what_another_one_said(
    store: SqliteStore, asker: Asker
) -> None:
    (wanted,) = say(store, "Sourdough needs a hot stone, my aunt says", session_id="earlier")
    for number in range(30):
        say(store, f"Sourdough, sourdough: loaf number {number} of sourdough", session_id="now")
    assert [item.id for item in asker.recall("sourdough", visible_since=MARCH_5).items] == [wanted]
