"""Versions of scenes and persona: a rollback is a new version, says what it changes, and tells nothing untrue."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb_worker.errors import InvalidInput, NotFound
from memory_tencentdb_worker.service.history import Rollback, compare_revisions, list_revisions, roll_back
from projection_parts import NOW, ZONE, Memory, section


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path / "data")
    tea = made.fact("likes green tea")
    made.write_scene("Tea", section("Likes", ("likes green tea", tea)), summary="tea")
    made.write_scene("Tea", section("Likes", ("likes green tea", tea), ("owns a red pot", tea)), heat=2, op="update")
    made.write_persona(section("Basics", ("drinks tea", tea)))
    yield made
    made.store.close()


def put_back(
    memory: Memory, name: str, revision: int, *, dry_run: bool = False, max_scenes: int = 15
) -> dict[str, Any]:
    return roll_back(Rollback(name, revision, "", dry_run, max_scenes), memory.store, NOW + 1_000)


def test_a_rollback_is_a_new_version_with_the_old_text_and_the_present_heat(memory: Memory) -> None:
    plan = put_back(memory, "Tea.md", 1)
    assert (plan["from"], plan["to"], plan["removed"]) == (2, 3, ["summary: s", "- owns a red pot"])
    scene = memory.store.scene("", "Tea")
    assert scene is not None
    assert (scene.revision, scene.heat, scene.summary, scene.updated_at) == (3, 2, "tea", NOW + 1_000)
    listed = list_revisions("Tea", "", memory.store, ZONE)["revisions"]
    assert [(one["revision"], one["op"]) for one in listed] == [(3, "rollback"), (2, "update"), (1, "create")]
    assert compare_revisions("Tea", "", 1, 3, memory.store)["diff"] == ""


def test_a_rollback_stands_in_the_audit_and_the_old_text_in_a_backup(memory: Memory) -> None:
    memory.refresh()
    put_back(memory, "Tea", 1)
    memory.refresh()
    with sqlite3.connect(memory.dir / "memory.db") as connection:
        rows = connection.execute("select target from audit where action = 'rollback-scene'").fetchall()
    connection.close()
    assert rows == [("Tea",)]
    assert "red pot" not in (memory.dir / "scene_blocks/Tea.md").read_text("utf-8")
    (backup,) = (memory.dir / ".backup/scene_blocks").iterdir()
    assert "red pot" in (backup / "Tea.md").read_text("utf-8")


def test_a_dry_run_changes_nothing(memory: Memory) -> None:
    before = memory.store.change_mark("")
    assert put_back(memory, "persona", 1, dry_run=True)["dry_run"]
    assert memory.store.change_mark("") == before


def test_a_line_whose_fact_was_replaced_is_not_put_back(memory: Memory) -> None:
    scene = memory.store.scene("", "Tea")
    assert scene is not None
    tea = scene.sections[0].lines[0].sources[0]
    memory.learn("likes black tea", memory.say("black now", "ok")[:1], supersedes=tea)
    with pytest.raises(InvalidInput, match="nothing of revision 1"):
        put_back(memory, "Tea", 1)


def test_an_archived_scene_comes_back_while_there_is_room(memory: Memory) -> None:
    memory.archive_scene("Tea")
    memory.write_scene("Work", section("Job", ("writes code", memory.fact("writes code"))))
    with pytest.raises(InvalidInput, match="no room"):
        put_back(memory, "Tea", 2, max_scenes=1)
    with pytest.raises(InvalidInput, match="archived"):
        put_back(memory, "Tea", 3)
    put_back(memory, "Tea", 2)
    assert sorted(scene.name for scene in memory.store.scenes("")) == ["Tea", "Work"]


def test_the_first_version_is_compared_with_nothing(memory: Memory) -> None:
    assert compare_revisions("persona", "", None, 1, memory.store)["added"] == ["## Basics", "- drinks tea"]


@pytest.mark.parametrize(("name", "revision"), [("Tea", 9), ("Coffee", 1), ("", 1)])
def test_what_is_not_there_is_not_found(memory: Memory, name: str, revision: int) -> None:
    with pytest.raises(NotFound):
        put_back(memory, name, revision)


def test_another_user_has_no_such_version(memory: Memory) -> None:
    with pytest.raises(NotFound):
        list_revisions("Tea", "somebody", memory.store, ZONE)
