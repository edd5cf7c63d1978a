"""The files in the data directory say what the store says, whatever happened in between."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memory_tencentdb_worker.errors import InvalidInput, StoreError
from memory_tencentdb_worker.models import Persona, Scene
from memory_tencentdb_worker.store.projection_formats import read_persona, read_scene, scene_text
from memory_tencentdb_worker.store.projections import Projector, scope_dir
from memory_tencentdb_worker.store.sessions import count_change
from projection_parts import NOW, ZONE, Memory, section

DAY_MS = 86_400_000


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path / "data")
    yield made
    made.store.close()


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_messages_stand_in_the_file_of_their_local_day_with_their_store_id(memory: Memory) -> None:
    first = memory.say("我住在深圳", "好的")
    memory.say("late", "night", now=NOW + 17 * 3_600_000)
    memory.refresh()
    today, tomorrow = (
        rows(memory.dir / "conversations/2026-05-21.jsonl"),
        rows(memory.dir / "conversations/2026-05-22.jsonl"),
    )
    assert [row["id"] for row in today] == list(first)
    assert list(today[0]) == ["sessionKey", "sessionId", "recordedAt", "id", "role", "content", "timestamp"]
    assert today[0]["content"] == "我住在深圳"
    assert today[0]["recordedAt"] == "2026-05-21T02:00:00.000Z"
    assert [row["role"] for row in tomorrow] == ["user", "assistant"]


def test_new_messages_are_appended_and_nothing_is_written_twice(memory: Memory) -> None:
    for number in range(5):
        memory.say(f"question {number}", f"answer {number}", now=NOW + number)
        memory.refresh()
        memory.refresh()
    path = memory.dir / "conversations/2026-05-21.jsonl"
    assert [row["content"] for row in rows(path)[::2]] == [f"question {number}" for number in range(5)]
    inode = path.stat().st_ino
    memory.say("one more", "yes", now=NOW + 9)
    memory.refresh()
    assert path.stat().st_ino == inode
    assert len(rows(path)) == 12


@pytest.mark.parametrize("damage", ["torn", "lost", "foreign", "gone"])
def test_a_day_file_heals_after_a_crash(memory: Memory, damage: str) -> None:
    for number in range(4):
        memory.say(f"q{number}", f"a{number}", now=NOW + number)
    memory.refresh()
    path = memory.dir / "conversations/2026-05-21.jsonl"
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(
            {"torn": whole[:-30], "lost": whole[: whole.rindex(b"\n", 0, -1) + 1], "foreign": b"{}\n"}[damage]
        )
    memory.restart()
    memory.refresh()
    assert path.read_bytes() == whole


def test_a_file_changed_by_others_while_we_run_is_made_whole_at_the_next_append(memory: Memory) -> None:
    memory.say("a", "b")
    memory.refresh()
    path = memory.dir / "conversations/2026-05-21.jsonl"
    path.write_bytes(b"")
    memory.say("c", "d", now=NOW + 1)
    memory.refresh()
    assert [row["content"] for row in rows(path)] == ["a", "b", "c", "d"]


def test_a_clock_that_is_set_back_hides_no_message(memory: Memory) -> None:
    memory.say("today", "yes")
    memory.refresh()
    memory.say("before", "yes", now=NOW - 2 * DAY_MS)
    memory.say("after", "yes", now=NOW + 1)
    memory.refresh()
    assert [row["content"] for row in rows(memory.dir / "conversations/2026-05-19.jsonl")] == ["before", "yes"]
    assert len(rows(memory.dir / "conversations/2026-05-21.jsonl")) == 4


def test_what_comes_while_files_are_written_is_written_once_and_nothing_is_read_all_over(memory: Memory) -> None:
    class Busy:
        """The store, at which a turn comes between every mark and what is read after it."""

        whole_reads = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(memory.store, name)

        def change_mark(self, scope: str) -> tuple[int, int, int, int]:
            mark = memory.store.change_mark(scope)
            memory.say(f"question {mark[0]}", "yes", now=NOW + mark[0])
            return mark

        def message_seqs(self, scope: str, since: int = 0) -> tuple[int, Sequence[int]]:
            self.whole_reads += 1
            return memory.store.message_seqs(scope, since)

    memory.say("question 0", "yes")
    store = Busy()
    projector = Projector(store, memory.dir, ZONE, clock=lambda: NOW)  # type: ignore[arg-type] # it passes all on
    for _ in range(6):
        projector.refresh()
    assert store.whole_reads == 1  # at the start
    said = [row["content"] for row in rows(memory.dir / "conversations/2026-05-21.jsonl")[::2]]
    assert said == ["question 0", *(f"question {number}" for number in range(1, 7))]


def test_what_is_taken_away_while_something_new_comes_is_in_no_file(memory: Memory) -> None:
    gone, _ = memory.say("forget me", "yes")
    memory.say("stays", "yes", now=NOW + 1)
    memory.refresh()
    with memory.store._database.write() as connection:
        connection.execute("delete from messages_fts where rowid = (select seq from messages where id = ?)", (gone,))
        connection.execute("delete from messages where id = ?", (gone,))
        count_change(connection, "", "message_changes")
    memory.say("new", "yes", now=NOW + 2)
    memory.refresh()
    said = [row["content"] for row in rows(memory.dir / "conversations/2026-05-21.jsonl")]
    assert said == ["yes", "stays", "yes", "new", "yes"]


def test_what_was_not_written_for_want_of_a_directory_is_written_once_later(memory: Memory) -> None:
    memory.say("today", "yes")
    memory.refresh()
    memory.say("still today", "yes", now=NOW + 1)
    memory.say("tomorrow", "yes", now=NOW + DAY_MS)
    blocked = memory.dir / "conversations/2026-05-22.jsonl"
    blocked.mkdir()
    with pytest.raises(StoreError, match=r"2026-05-22"):
        memory.refresh()
    blocked.rmdir()
    memory.refresh()
    today = rows(memory.dir / "conversations/2026-05-21.jsonl")
    assert [row["content"] for row in today] == ["today", "yes", "still today", "yes"]
    assert [row["content"] for row in rows(blocked)] == ["tomorrow", "yes"]


def test_atoms_are_listed_with_their_sources_and_superseded_ones_say_by_what(memory: Memory) -> None:
    message, _ = memory.say("I live in Paris", "nice")
    old = memory.learn("lives in Paris", [message])
    memory.refresh()
    path = memory.dir / "records/2026-05-21.jsonl"
    (row,) = rows(path)
    assert row["source_message_ids"] == [message]
    assert " ".join(row) == (
        "id content type priority scene_name source_message_ids metadata timestamps"
        " createdAt updatedAt sessionKey sessionId"
    )
    new = memory.learn("lives in Rome", [message], supersedes=old, now=NOW + DAY_MS)
    memory.refresh()
    (row,) = rows(path)
    assert row["supersededBy"] == new
    assert row["supersededAt"] == "2026-05-22T02:00:00.000Z"
    assert [row["id"] for row in rows(memory.dir / "records/2026-05-22.jsonl")] == [new]


def test_a_scene_is_a_file_with_meta_and_sources_that_reads_back(memory: Memory) -> None:
    atom = memory.fact("likes green tea")
    memory.write_scene(
        "Tea-and-code",
        section("Preferences", ("likes green tea", atom), ("两行\nin one", atom)),
        summary="tea\nand code",
    )
    memory.refresh()
    text = (memory.dir / "scene_blocks/Tea-and-code.md").read_text("utf-8")
    assert text.startswith(
        "-----META-START-----\ncreated: 2026-05-21T10:00:00+08:00\nupdated: 2026-05-21T10:00:00+08:00\n"
        "summary: tea and code\nheat: 1\n-----META-END-----\n\n## Preferences\n"
    )
    assert f"- likes green tea <!-- {atom} -->\n" in text
    document = read_scene(text)
    assert document.summary == "tea and code"
    assert [line.sources for line in document.sections[0].lines] == [(atom,), (atom,)]
    (entry,) = json.loads((memory.dir / ".metadata/scene_index.json").read_text("utf-8"))
    assert list(entry) == ["filename", "summary", "heat", "created", "updated"]
    assert entry["filename"] == "Tea-and-code.md"


def test_text_that_looks_like_our_marks_is_not_read_as_ours(memory: Memory) -> None:
    lines = [
        ("ends with <!-- m_0000000000000000 -->",),
        ("-----META-END-----",),
        ("- nested", "m_1"),
        ("# not a heading", "a b%-->"),
    ]
    scene = Scene("", "x", 1, "a -----META-END----- b", (section("H # x", *lines),), 3, NOW, NOW)
    document = read_scene(scene_text(scene, ZONE))
    assert document.sections[0].lines[0].text == lines[0][0]
    assert [line.sources for line in document.sections[0].lines] == [(), (), ("m_1",), ("a b%-->",)]
    assert document.sections[0].heading == "H # x"


def test_the_persona_ends_with_the_navigation(memory: Memory) -> None:
    atom = memory.fact("likes tea")
    memory.write_scene("Small", section("S", ("x", atom)), heat=1)
    memory.write_scene("Hot", section("S", ("x", atom)), heat=120, summary="hot one")
    memory.write_persona(section("Basics", ("likes tea", atom, "Hot")))
    memory.refresh()
    text = (memory.dir / "persona.md").read_text("utf-8")
    assert f"## Basics\n- likes tea <!-- {atom} Hot -->\n" in text
    body, _, navigation = text.partition("\n---\n## 🗺️ Scene Navigation (Scene Index)\n")
    assert "Hot" in body
    assert navigation.index("### Path: scene_blocks/Hot.md") < navigation.index("### Path: scene_blocks/Small.md")
    assert "**热度**: 120 🔥🔥 | **更新**: 2026-05-21T10:00:00+08:00\nSummary: hot one\n" in navigation
    assert "\n📌" in navigation
    assert [part.heading for part in read_persona(text).sections] == ["Basics"]


def test_the_navigation_follows_the_scenes(memory: Memory) -> None:
    memory.write_persona(section("Basics", ("likes tea", memory.fact("likes tea"))))
    memory.refresh()
    assert "### Path" not in (memory.dir / "persona.md").read_text("utf-8")
    memory.write_scene("Late", section("S", ("x", memory.fact("x"))))
    memory.refresh()
    assert "### Path: scene_blocks/Late.md" in (memory.dir / "persona.md").read_text("utf-8")
    assert not (memory.dir / ".backup/persona").exists()


def test_archived_and_merged_scenes_lose_their_files_and_a_backup_stays(memory: Memory) -> None:
    for name in ("A", "B", "C"):
        memory.write_scene(name, section("S", (f"about {name}", memory.fact(f"about {name}"))))
    memory.refresh()
    memory.archive_scene("A")
    memory.write_scene("C", section("S", ("all", memory.fact("all"))), absorbed=("B",), op="merge")
    memory.refresh()
    assert [path.name for path in (memory.dir / "scene_blocks").iterdir()] == ["C.md"]
    index = json.loads((memory.dir / ".metadata/scene_index.json").read_text("utf-8"))
    assert [entry["filename"] for entry in index] == ["C.md"]
    (backup,) = (memory.dir / ".backup/scene_blocks").iterdir()
    assert backup.name.startswith("scene_blocks_20260521_100000_offset")
    assert sorted(path.name for path in backup.iterdir()) == ["A.md", "B.md", "C.md"]


def test_only_so_many_backups_are_kept(memory: Memory) -> None:
    for number in range(7):
        memory.clock = NOW + number * 1000
        memory.write_persona(section("Basics", (f"version {number}", memory.fact(f"fact {number}"))))
        memory.write_scene("S", section("S", (f"version {number}", memory.fact(f"fact {number}"))))
        memory.refresh()
    assert sorted(path.name for path in (memory.dir / ".backup/persona").iterdir()) == [
        f"persona_20260521_10000{number}_offset{number}.md" for number in (4, 5, 6)
    ]
    assert len(list((memory.dir / ".backup/scene_blocks").iterdir())) == 4


def test_users_do_not_share_a_directory(memory: Memory) -> None:
    memory.say("mine", "ok")
    memory.say("hers", "ok", scope="ann")
    memory.refresh()
    hers = scope_dir(memory.dir, "ann")
    assert hers.parent == memory.dir / "users"
    assert "hers" not in (memory.dir / "conversations/2026-05-21.jsonl").read_text("utf-8")
    assert rows(hers / "conversations/2026-05-21.jsonl")[0]["content"] == "hers"


def test_files_and_directories_are_private(memory: Memory) -> None:
    atom = memory.fact("likes tea")
    memory.write_scene("S", section("S", ("x", atom)))
    memory.write_persona(section("S", ("x", atom)))
    memory.refresh()
    for path in memory.dir.rglob("*"):
        if not path.name.startswith("memory.db"):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    manifest = json.loads((memory.dir / ".metadata/manifest.json").read_text("utf-8"))
    assert manifest["store"] == {"type": "sqlite", "sqlite": {"path": "memory.db"}}


def test_everything_can_be_rebuilt(memory: Memory) -> None:
    atom = memory.fact("likes tea")
    memory.write_scene("S", section("S", ("x", atom)))
    memory.write_persona(section("S", ("x", atom)))
    memory.refresh()

    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in memory.dir.rglob("*") if path.is_file() and ".db" not in path.name}

    before = contents()
    for name in ("conversations", "records", "scene_blocks"):
        shutil.rmtree(memory.dir / name)
    (memory.dir / "persona.md").unlink()
    (memory.dir / ".metadata/scene_index.json").unlink()
    assert memory.projector.rebuild() == 6
    assert contents() == before


def test_a_first_start_on_a_full_store_writes_every_day(memory: Memory) -> None:
    for days in (0, 30, 60):
        memory.say("x", "y", now=NOW + days * DAY_MS)
    memory.refresh()
    assert len(list((memory.dir / "conversations").iterdir())) == 3


def test_a_disk_error_is_told_and_the_next_refresh_makes_up_for_it(memory: Memory) -> None:
    memory.say("a", "b")
    blocker = memory.dir / "conversations"
    blocker.write_text("in the way")
    with pytest.raises(StoreError, match="Not a directory"):
        memory.refresh()
    blocker.unlink()
    memory.refresh()
    assert len(rows(memory.dir / "conversations/2026-05-21.jsonl")) == 2


def test_a_killed_writer_leaves_the_old_or_the_new_text(tmp_path: Path) -> None:
    script = (
        "import itertools, pathlib, sys; from memory_tencentdb_worker.store.projection_files import write_file\n"
        "for n in itertools.count(): write_file(pathlib.Path(sys.argv[1]), (b'%d' % (n % 10)) * 300_000);"
        " n == 2 and print('ready', flush=True)"
    )
    path = tmp_path / "persona.md"
    for _ in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", script, path], stdout=subprocess.PIPE, env={"PYTHONPATH": ":".join(sys.path)}
        )
        with writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            writer.kill()
        text = path.read_bytes()
        assert text == text[:1] * 300_000


def test_a_scene_name_cannot_leave_its_directory(memory: Memory) -> None:
    memory.write_scene("../../evil", section("S", ("x", memory.fact("x"))))
    with pytest.raises(InvalidInput):
        memory.refresh()
    assert not (memory.dir.parent / "evil.md").exists()


def test_an_idle_refresh_reads_no_file(memory: Memory) -> None:
    memory.write_persona(section("S", ("x", memory.fact("x"))))
    memory.refresh()
    path = memory.dir / "persona.md"
    os.utime(path, ns=(1, 1))
    before = path.stat()
    memory.refresh()
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_another_zone_makes_other_days(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.say("x", "y")
    Projector(memory.store, tmp_path, ZoneInfo("America/New_York")).refresh()
    assert (tmp_path / "conversations/2026-05-20.jsonl").exists()
    memory.store.close()


def test_a_persona_without_text_still_has_its_title() -> None:
    persona = Persona("", 1, (), NOW, "edit")
    assert read_persona(f"# Persona\n\n{persona.reason}").sections[0].lines[0].text == "edit"


@pytest.mark.parametrize("place", ["", "conversations", "records", "scene_blocks", ".metadata", ".backup/persona"])
def test_a_new_start_clears_away_what_a_killed_writer_left(memory: Memory, place: str) -> None:
    (memory.dir / place).mkdir(parents=True, exist_ok=True)
    half = memory.dir / place / ".140162a1f7292140.tmp"
    half.write_bytes(b"# Per")
    memory.say("I live in Oslo", "Noted.")
    Projector(memory.store, memory.dir, ZONE).refresh()
    assert not half.exists()
