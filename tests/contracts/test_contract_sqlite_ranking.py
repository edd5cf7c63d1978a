"""Words of many messages, small parts of a large store, and what search holds in memory. SQLite alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from contracts.test_contract_sqlite_places import write_version_1
from contracts.turns import NOW, add, turn
from memory_tencentdb_worker.models import Filter
from memory_tencentdb_worker.store.message_keys import pack_words
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = open_store(tmp_path / "data", NOW)
    yield store
    store.close()


def texts(store: SqliteStore, query: str, filter: Filter = Filter(""), limit: int = 10) -> list[str]:  # noqa: B008
    return [hit.message.text for hit in store.search_messages(query, filter, limit)]


def say(store: SqliteStore, count: int, text: str, *, session: str = "noise", scope: str = "") -> None:
    """As often as asked for, in sessions of a few messages."""
    for number in range(count):
        add(store, f"{text} number{number}", "", session=f"{session}{number // 5}", scope=scope)


@pytest.mark.parametrize("frequent", ["report", "src/report.py", "went"])
def test_contract_sqlite_a_frequent_word_decides_between_messages_with_the_same_rare_one(
    store: SqliteStore, frequent: str
) -> None:
    say(store, 210, f"again {frequent}")
    say(store, 180, "of something else", session="more")
    say(store, 30, "zebra", session="rare")  # enough of them: the frequent word names no candidates
    add(store, f"zebra {frequent} today", "", session="a")
    add(store, "zebra in front today", "", session="b")
    add(store, "a zebra py src today", "", session="c")
    asked = "go" if frequent == "went" else frequent
    assert texts(store, f"zebra {asked}")[0] == f"zebra {frequent} today"


def test_contract_sqlite_a_session_is_searched_by_words_that_all_others_use(store: SqliteStore) -> None:
    add(store, "the monthly report of the harbour", "", session="mine")
    say(store, 210, "report")
    add(store, "a quokka elsewhere", "", session="other")
    mine = Filter("", session_key="mine")
    assert texts(store, "report", mine) == ["the monthly report of the harbour"]
    assert texts(store, "quokka report", mine) == ["the monthly report of the harbour"]
    assert texts(store, "report", Filter("", session_key="mine", before_seq=1)) == []


def test_contract_sqlite_a_small_scope_is_not_starved_by_a_large_one(store: SqliteStore) -> None:
    add(store, "the monthly report of bob", "", scope="bob")
    say(store, 210, "report", scope="alice")
    assert texts(store, "report", Filter("bob")) == ["the monthly report of bob"]
    assert len(texts(store, "report", Filter("alice"), 20)) == 20
    assert texts(store, "report", Filter("carol")) == []


def test_contract_sqlite_a_removed_thread_leaves_its_number_to_another(store: SqliteStore, tmp_path: Path) -> None:
    add(store, "zebra of alice", "", scope="alice")
    assert texts(store, "zebra", Filter("alice")) == ["zebra of alice"]
    raw = apsw.Connection(str(tmp_path / "data" / "memory.db"))
    raw.execute("pragma foreign_keys = on")
    raw.execute("delete from messages; delete from messages_fts; delete from threads")
    assert raw.execute("select count(*) from message_keys").fetchall() == [(0,)]
    raw.close()
    add(store, "zebra of bob", "", scope="bob")
    assert texts(store, "zebra", Filter("alice")) == []
    assert texts(store, "zebra", Filter("bob")) == ["zebra of bob"]


def test_contract_sqlite_neighbours_are_known_across_readings_of_the_order(store: SqliteStore) -> None:
    for number in range(3):
        add(store, f"{number} the zebra" if number == 0 else f"{number} later", "", session="a")
        add(store, "noise", "", session="b")
        assert texts(store, "zebra") == ["0 the zebra", "1 later", "2 later"][: number + 1]


def test_contract_sqlite_messages_of_version_1_get_the_keys_that_new_ones_have(tmp_path: Path) -> None:
    write_version_1(tmp_path / "old")
    old, new = open_store(tmp_path / "old", NOW), open_store(tmp_path / "new", NOW)
    for message in old.session_tail("", "s1", 5):
        new.add_turn(turn(message.text, "", at=message.sent_at), lambda state: (), NOW)
    old.close()
    new.close()
    old_keys, new_keys = _keys_in_session(tmp_path / "old"), _keys_in_session(tmp_path / "new")
    assert old_keys == new_keys
    assert old_keys[0] == ("user", NOW, "", 0, pack_words(["where", "is", "the", "zebra"]))


def _keys_in_session(data_dir: Path) -> list[tuple[object, ...]]:
    raw = apsw.Connection(str(data_dir / "memory.db"))
    rows = raw.execute(
        "select role, sent_at, speaker, asks, words from message_keys"
        " where seq in (select seq from messages where session_key = 's1') order by seq"
    ).fetchall()
    raw.close()
    return rows
