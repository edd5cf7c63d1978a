"""Search in every store: any text is a safe query, and every word of every script finds its row."""

from __future__ import annotations

import pytest

from contracts.turns import add, remember, run_l2, scene
from memory_tencentdb_worker.models import AtomType, Filter
from memory_tencentdb_worker.store.base import Store

AWKWARD = [
    "don't", "50%", "C++", "src/main.py", "a@b.com", "#123", '"', "", "*", "NEAR(", "AND", "foo AND", "(", "^", "\0",
    "chat-send", "a:b", "wrong-book OR x", "text:x", "-x", "'); drop table messages; --", "🦊", "👨‍👩‍👧‍👦",
    "\ud800", "???", "   ", "的", "، ؟", "{a b} : c", "x" * 5_000,
]  # fmt: skip


def texts(store: Store, query: str, filter: Filter = Filter(""), limit: int = 10) -> list[str]:  # noqa: B008
    return [hit.message.text for hit in store.search_messages(query, filter, limit)]


@pytest.mark.parametrize("query", AWKWARD)
def test_any_text_is_a_safe_query(store: Store, query: str) -> None:
    add(store, "nothing special", "")
    remember(store, "nothing either")
    assert isinstance(store.search_messages(query, Filter(""), 5), list)
    assert isinstance(store.search_atoms(query, Filter(""), 5), list)


@pytest.mark.parametrize("query", ["", " ", "?!…", "🦊", '"', "()"])
def test_query_without_letter_or_digit_finds_nothing(store: Store, query: str) -> None:
    add(store, "🦊 ?! ()", "")
    assert store.search_messages(query, Filter(""), 5) == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我昨天在北京吃了烤鸭", "北京"),
        ("我昨天在北京吃了烤鸭", "烤鸭"),
        ("请修改youer服务端的配置", "youer"),
        ("请修改youer服务端的配置", "服务"),
        ("東京でラーメンを食べた", "ラーメン"),
        ("東京でラーメンを食べた", "東京"),
        ("서울에서 비빔밥을 먹었다", "서울"),
        ("see src/main.py for details", "src/main.py"),
        ("see src/main.py for details", "main.py"),
        ("write to ann@example.com", "ann@example.com"),
        ("she writes C++ and Rust", "C++"),
        ("naïve café", "cafe"),
        ("They were running", "run"),
        ("issue #123 is open", "#123"),
    ],
)
def test_words_of_every_script_are_found(store: Store, text: str, query: str) -> None:
    add(store, text, "")
    add(store, "something else altogether", "")
    assert texts(store, query)[:1] == [text]


def test_hits_are_scored_best_first_and_positive(store: Store) -> None:
    add(store, "deploy key rotates Friday", "")
    for number in range(30):
        add(store, f"I am in the office number {number}", "")
    hits = store.search_messages("what is the deploy key", Filter(""), 10)
    assert hits[0].message.text == "deploy key rotates Friday"
    assert all(hit.score > 0 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_search_never_leaves_its_scope_or_session(store: Store) -> None:
    for number in range(20):
        add(store, f"pizza {number}", "", scope="alice")
    add(store, "pizza of bob", "", scope="bob", session="b1")
    add(store, "pizza again", "", scope="bob", session="b2")
    remember(store, "likes pizza", scope="alice")
    assert sorted(texts(store, "pizza", Filter("bob"), 5)) == ["pizza again", "pizza of bob"]
    assert texts(store, "pizza", Filter("bob", session_key="b1"), 1) == ["pizza of bob"]
    assert texts(store, "pizza", Filter("unknown")) == []
    assert store.search_atoms("pizza", Filter("bob"), 5) == []


def test_messages_can_be_cut_by_seq(store: Store) -> None:
    for number in range(4):
        add(store, f"pizza {number}", "")
    seqs = [message.seq for message in store.session_tail("", "s1", 9)]
    assert sorted(texts(store, "pizza", Filter("", before_seq=seqs[2]))) == ["pizza 0", "pizza 1"]
    assert sorted(texts(store, "pizza", Filter("", after_seq=seqs[2]))) == ["pizza 3"]


def test_atoms_are_filtered_by_type_session_and_scene(store: Store) -> None:
    remember(store, "likes tea", type=AtomType.PERSONA, scene="Tee-Küche", session="a")
    remember(store, "drank tea", type=AtomType.EPISODIC, scene="Travel 100%", session="b")

    def found(**filter: object) -> list[str]:
        return [hit.atom.content for hit in store.search_atoms("tea", Filter("", **filter), 5)]  # type: ignore[arg-type]

    assert found(type=AtomType.EPISODIC) == ["drank tea"]
    assert found(session_key="a") == ["likes tea"]
    assert found(scene="KÜCHE") == ["likes tea"]
    assert found(scene="100%") == ["drank tea"]
    assert found(scene="1%") == []
    assert found(type=AtomType.INSTRUCTION) == []


@pytest.mark.parametrize("name", ["Daily-Life", "daily-life", "DAILY-LIFE.md"])
def test_atoms_are_found_by_the_scene_in_which_they_stand(store: Store, name: str) -> None:
    inside = remember(store, "likes tea", scene="talking about work")
    remember(store, "drank tea", scene="talking about work")
    run_l2(store, scene("Daily-Life", ("likes tea", [inside.id])))
    other = remember(store, "hates tea", scene="talking", scope="bob")
    run_l2(store, scene("Daily-Life", ("hates tea", [other.id]), scope="bob"), scope="bob")

    assert [hit.atom.content for hit in store.search_atoms("tea", Filter("", scene=name), 5)] == ["likes tea"]
    assert store.search_atoms("tea", Filter("", scene="Daily"), 5) == []


@pytest.mark.parametrize("limit", [0, -1, 1, 10_000])
def test_limit_is_kept_within_bounds(store: Store, limit: int) -> None:
    for number in range(3):
        add(store, f"pizza {number}", "", session=f"p{number}")
        remember(store, f"pizza fact {number}", said=f"x{number}")
    assert len(store.search_messages("pizza", Filter(""), limit)) == max(0, min(6, limit))  # what the facts rest on too
    assert len(store.search_atoms("pizza", Filter(""), limit)) == max(0, min(3, limit))


def test_very_long_query_is_answered(store: Store) -> None:
    add(store, "the needle is here", "")
    query = " ".join(f"word{number}" for number in range(150)) + " needle " + "lorem ipsum 北京烤鸭 " * 900
    assert len(query) > 10_000
    assert texts(store, query) == ["the needle is here"]


def test_text_is_searchable_after_it_grew_and_only_once(store: Store) -> None:
    add(store, "pizza", "", turn_id="t1")
    add(store, "pizza", "with olives", turn_id="t1")
    assert texts(store, "pizza") == ["pizza", "with olives"]
    assert texts(store, "olives") == ["with olives", "pizza"]
