"""Places of messages in a database that was made before there were any."""

from __future__ import annotations

from pathlib import Path

import apsw

from contracts.turns import NOW, add
from memory_tencentdb_worker.models import Filter
from memory_tencentdb_worker.store.schema import MIGRATIONS
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store


def write_version_1(data_dir: Path) -> None:
    """Three messages of one session and one of another, as the first schema had them."""
    data_dir.mkdir(mode=0o700)
    raw = apsw.Connection(str(data_dir / "memory.db"))
    raw.execute(MIGRATIONS[0][1])
    raw.execute("pragma user_version = 1")
    said = [("s1", "where is the zebra"), ("s2", "elsewhere"), ("s1", "behind the house"), ("s1", "thank you")]
    for seq, (session, text) in enumerate(said, 1):
        raw.execute("insert into turns values ('', ?, ?, ?, ?, ?, 'test', ?)", (f"t{seq}", session, "", NOW, NOW, seq))
        raw.execute(
            "insert into messages values (?, ?, '', ?, 0, ?, '', 'user', 'user', ?, 'hash', ?, ?)",
            (seq, f"l0_{seq}", f"t{seq}", session, text, NOW, NOW),
        )
        raw.execute("insert into messages_fts(rowid, text) values (?, ?)", (seq, text))
    raw.close()


def texts(store: SqliteStore, query: str) -> list[str]:
    return [hit.message.text for hit in store.search_messages(query, Filter(""), 10)]


def test_contract_sqlite_messages_of_version_1_get_their_places(tmp_path: Path) -> None:
    write_version_1(tmp_path / "data")
    store = open_store(tmp_path / "data", NOW)
    assert texts(store, "zebra") == ["where is the zebra", "behind the house", "thank you"]
    store.close()


def test_contract_sqlite_new_messages_go_on_behind_the_old_ones(tmp_path: Path) -> None:
    write_version_1(tmp_path / "data")
    store = open_store(tmp_path / "data", NOW)
    add(store, "and the giraffe?", "", session="s1", turn_id="next")
    store.close()
    raw = apsw.Connection(str(tmp_path / "data" / "memory.db"))
    sessions = dict(raw.execute("select session_id, messages from threads where session_key = 's1'"))
    places = [row[0] for row in raw.execute("select place from message_places order by place")]
    raw.close()
    assert sessions == {"": 3, "s1": 1}, "a session is its key and its id"
    assert len(set(places)) == len(places) == 5
