"""A damaged database: nothing is overwritten, the last good backup is offered, and the offered command works."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_tencentdb_worker.errors import StoreCorrupt, StoreError
from memory_tencentdb_worker.models import Filter
from memory_tencentdb_worker.service.store_watch import StoreWatch
from memory_tencentdb_worker.service.upkeep import BACKUP_EVERY_MS, Upkeep
from memory_tencentdb_worker.store.backups import KEPT, backups, newest_good_backup, restore_command
from memory_tencentdb_worker.store.migrations import open_database
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from processes import FAST_PIPELINE, WorkerProcess
from service_parts import MARCH_5, Clock, build_service, say

PAGE = 4096


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "home" / "data"


@pytest.fixture
def home(data_dir: Path) -> Iterator[Path]:
    """A home with ten turns, a backup of the first five, and no worker; whatever a test starts ends with it."""
    home = data_dir.parent
    home.mkdir()
    store = open_store(data_dir, MARCH_5)
    for number in range(10):
        if number == 5:
            store.back_up(MARCH_5)
        say(store, f"My boat number {number} is called Halcyon {number}.", "Noted.", turn_id=f"t{number}")
    store.close()
    yield home
    command_line(home, "stop")


def command_line(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "memory_tencentdb_worker", *arguments, "--home", str(home)]
    environment = WorkerProcess(home).env
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


def status(home: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(command_line(home, "status", "--json").stdout)
    return document


def zero_the_header(path: Path) -> None:
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])


def cut_in_half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 // PAGE * PAGE])


def empty(path: Path) -> None:
    (path.parent / "conversations").mkdir()
    (path.parent / "conversations" / "2026-03-05.jsonl").write_text("{}\n")
    path.write_bytes(b"")


def lose(path: Path) -> None:
    empty(path)
    path.unlink()


@pytest.mark.parametrize("damage", [zero_the_header, cut_in_half, empty, lose])
def test_a_damaged_file_is_left_alone_and_the_command_that_status_prints_brings_the_backup_back(
    home: Path, data_dir: Path, damage: Any, tmp_path: Path
) -> None:
    database = data_dir / "memory.db"
    damage(database)
    before = database.read_bytes() if database.exists() else None
    ended = command_line(home, "run")
    assert ended.returncode == 3
    assert str(database) in ended.stderr
    assert "newest good backup" in ended.stderr
    shown = command_line(home, "status")
    assert shown.returncode == 4
    document = status(home)
    assert document["state"] == "broken"
    reason = next(each for each in document["reasons"] if each["code"] == "store_corrupt")
    assert str(backups(data_dir)[0]) in reason["message"]
    assert (database.read_bytes() if database.exists() else None) == before

    tool = tmp_path / "bin" / "memory-tencentdb"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memory_tencentdb_worker "$@"\n')
    tool.chmod(0o755)
    environment = WorkerProcess(home).env | {
        "MEMORY_TENCENTDB_HOME": str(home),
        "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}",
    }
    restored = subprocess.run(
        ["sh", "-c", reason["action"]], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert restored.returncode == 0, restored.stderr
    document = status(home)
    assert (document["state"], document["counts"]["turns"]) == ("ok", 5)
    assert list(data_dir.glob("damaged-*"))


def test_garbage_in_the_write_ahead_log_is_kept_and_the_database_opens(data_dir: Path, home: Path) -> None:
    wal = data_dir / "memory.db-wal"
    wal.write_bytes(b"garbage" * 1000)
    store = open_store(data_dir, MARCH_5)
    assert store.counts().turns == 10
    say(store, "Still here.")
    store.close()
    kept = next(data_dir.glob("memory.db-wal.damaged-*"))
    assert kept.read_bytes() == b"garbage" * 1000


def test_flipped_bytes_are_found_at_the_start_or_while_reading_and_never_end_in_a_foreign_exception(
    data_dir: Path, home: Path
) -> None:
    whole = (data_dir / "memory.db").read_bytes()
    noticed = 0
    for seed in range(15):
        dice = random.Random(seed)
        damaged = bytearray(whole)
        for _ in range(30):
            damaged[dice.randrange(PAGE, len(damaged))] ^= 1 << dice.randrange(8)
        (data_dir / "memory.db").write_bytes(damaged)
        try:
            store = open_store(data_dir, MARCH_5)
        except StoreCorrupt:
            noticed += 1
            continue
        noticed += not_readable(store)
        store.close()
        for rest in data_dir.glob("memory.db-*"):
            rest.unlink()
    assert noticed > 7


def not_readable(store: SqliteStore) -> bool:
    try:
        store.search_messages("halcyon boat", Filter(""), 20)
        store.messages_between("", 0, MARCH_5 * 2)
        say(store, "One more.")
    except StoreError:  # damaged words of the schema make a query wrong
        return True
    return False


def break_page_of(data_dir: Path, table: str) -> None:
    """Overwrites the table's first page while the store has the file open, as a failing disk would."""
    reader = apsw.Connection(str(data_dir / "memory.db"))
    page = reader.execute("select rootpage from sqlite_schema where name = ?", (table,)).fetchall()[0][0]
    reader.close()
    handle = os.open(data_dir / "memory.db", os.O_WRONLY)
    os.pwrite(handle, b"\xff" * PAGE, (page - 1) * PAGE)
    os.close(handle)


def test_damage_found_while_running_breaks_the_state_for_good_and_takes_no_more_turns(
    data_dir: Path, home: Path, tmp_path: Path
) -> None:
    store = open_store(data_dir, MARCH_5)
    built = build_service(store, tmp_path / "home")
    store.checkpoint()
    break_page_of(data_dir, "messages")
    with pytest.raises(StoreCorrupt):
        store.read_through()
    document = built.service.status()
    assert document["state"] == "broken"
    reason = document["reasons"][0]
    assert reason["code"] == "store_corrupt"
    assert ".backup/memory-" in reason["action"]
    with pytest.raises(StoreCorrupt):
        say(store, "This turn stays in the outbox.")
    assert built.service.refresh_state() == "broken"
    store.close()


def test_a_worker_that_meets_damage_answers_503_and_stays(home: Path, data_dir: Path) -> None:
    worker = WorkerProcess(home, {"memory": {"pipeline": FAST_PIPELINE}})
    worker.start()
    try:
        worker.flush()
        break_page_of(data_dir, "messages")
        with worker.client() as client:
            for number in range(3):
                answer = client.post("/capture", json={"user_content": "x", "assistant_content": "y" * number,
                                                       "session_key": "s", "turn_id": f"n{number}"})  # fmt: skip
                searched = client.post("/search/conversations", json={"query": "Halcyon"})
                assert searched.status_code in (200, 503)
                assert answer.status_code in (200, 503)
    finally:
        assert worker.stop() == 0


class Upkept:
    """A store and its upkeep, moved by hand; always quiet."""

    def __init__(self, data_dir: Path) -> None:
        self.clock = Clock()
        self.store = open_store(data_dir, self.clock())
        self.watch = StoreWatch(self.store, data_dir)
        self.upkeep = Upkeep(self.store, self.watch, self.clock, quiet=lambda: True, refresh=lambda: None)

    def codes(self) -> list[str]:
        return [each.code for each in self.watch.reasons(self.clock())]


def test_a_backup_is_made_once_a_day_and_three_are_kept(tmp_path: Path) -> None:
    kept = Upkept(tmp_path / "data")
    for day in range(5):
        say(kept.store, f"day {day}")
        kept.upkeep.look()
        kept.upkeep.look()  # nothing more today
        kept.clock.now += BACKUP_EVERY_MS
    made = backups(tmp_path / "data")
    assert len(made) == KEPT
    assert {path.stat().st_mode & 0o777 for path in made} == {0o600}
    assert kept.store.facts().backup == str(made[0])
    kept.store.close()
    copy = apsw.Connection(str(made[0]), flags=apsw.SQLITE_OPEN_READONLY)
    assert copy.execute("select count(*) from turns").fetchall() == [(5,)]
    copy.close()


def test_a_backup_that_cannot_be_made_is_said_and_tried_again(tmp_path: Path) -> None:
    kept = Upkept(tmp_path / "data")
    (tmp_path / "data" / ".backup").write_text("in the way")
    kept.upkeep.look()
    assert kept.codes() == ["backup"]
    kept.store.close()


def test_only_a_good_backup_is_offered(data_dir: Path, home: Path) -> None:
    good = backups(data_dir)[0]
    newer = good.with_name("memory-20260401_000000.db")
    newer.write_bytes(good.read_bytes()[: PAGE * 3])
    assert backups(data_dir)[0] == newer
    assert newest_good_backup(data_dir) == good


def test_a_restored_backup_begins_with_its_own_state_and_loses_no_later_file(data_dir: Path, home: Path) -> None:
    """Trap B31: cursors and schedule lie in the database, so they fit; what later files hold is kept aside."""
    (data_dir / "scene_blocks").mkdir()
    (data_dir / "scene_blocks" / "Boats.md").write_text("written by a later state")
    (data_dir / "conversations").mkdir()
    (data_dir / "conversations" / "2026-03-05.jsonl").write_text("ten turns\n")
    backup = backups(data_dir)[0]
    subprocess.run(["sh", "-c", f"rm {data_dir}/memory.db; cp {backup} {data_dir}/memory.db"], check=True)
    store = open_store(data_dir, MARCH_5)
    assert store.counts().turns == 5
    assert len(store.unextracted("", 99)) == 10  # five turns: they will be read, like new ones
    assert store.projection_hashes("") == {}
    aside = next((data_dir / ".backup").glob("before-restore-*"))
    assert (aside / "scene_blocks" / "Boats.md").read_text() == "written by a later state"
    assert not (data_dir / "scene_blocks").exists()
    store.close()
    open_store(data_dir, MARCH_5 + 1000).close()
    assert len(list((data_dir / ".backup").glob("before-restore-*"))) == 1  # only the first time


def test_the_command_for_a_loss_without_a_backup_keeps_the_conversations(tmp_path: Path) -> None:
    data_dir = tmp_path / "a b"
    (data_dir / "conversations").mkdir(parents=True)
    command = restore_command(data_dir, None, MARCH_5)
    assert f"cd '{data_dir}'" in command
    assert "mv conversations damaged-" in command


def test_a_damaged_copy_is_no_backup(tmp_path: Path) -> None:
    database = open_database(tmp_path / "data", MARCH_5)
    database.close()
    assert newest_good_backup(tmp_path / "data") is None
