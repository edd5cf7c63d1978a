"""A person's edit of a scene or persona file is noticed, never overwritten, and never lies about its sources."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_tencentdb_worker.models import NewMessage, NewTurn, Origin, Persona, Role, SceneChange, Section
from memory_tencentdb_worker.store.projections import CHECKED_SCOPES, Edit, scope_dir
from projection_parts import NOW, Memory, section


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path / "data")
    atom = made.fact("likes green tea")
    made.write_scene("Tea", section("Likes", ("likes green tea", atom), ("owns a red pot", atom)), summary="tea")
    made.write_scene("Work", section("Job", ("writes code", atom)), summary="work")
    made.write_persona(section("Basics", ("drinks tea", atom)))
    made.refresh()
    yield made
    made.store.close()


def edit_file(path: Path, old: str, new: str) -> None:
    """As editors do it: temporary file and rename."""
    text = path.read_text("utf-8")
    assert old in text
    temporary = path.with_name(f".{path.name}.swp")
    temporary.write_text(text.replace(old, new), "utf-8")
    temporary.replace(path)


def apply_edits(memory: Memory, edits: list[Edit]) -> None:
    """What the pipeline does with edits, in short."""
    changes, persona = [], None
    for edit in edits:
        if edit.kind == "persona":
            persona = Persona("", 0, edit.sections, NOW, "edit")
            continue
        scene = memory.store.scene("", edit.name)
        assert scene is not None
        changed = scene.__class__(
            **{**scene.__dict__, "sections": edit.sections, "summary": edit.summary or scene.summary}
        )
        changes.append(SceneChange("archive" if edit.removed else "edit", scene if edit.removed else changed))
    message = NewMessage(Role.USER, "edited by hand", NOW, Origin.OWNER_EDIT)
    memory.turns += 1
    turn = NewTurn("", f"edit_{memory.turns}", "owner", "owner", (message,), NOW, "edit")
    memory.store.edit_documents("", changes, persona, turn, NOW)


def test_untouched_files_are_no_edits(memory: Memory) -> None:
    assert memory.projector.read_edits() == []
    memory.restart()
    assert memory.projector.read_edits() == []


def test_an_edit_of_a_scene_is_read_with_the_sources_of_its_unchanged_lines(memory: Memory) -> None:
    path = memory.dir / "scene_blocks/Tea.md"
    edit_file(path, "- owns a red pot", "- owns a blue pot")
    edit_file(path, "## Likes\n", "## Likes\n- hates coffee\n")
    edit_file(path, "summary: tea", "summary: tea and pots")
    (edit,) = memory.projector.read_edits()
    lines = edit.sections[0].lines
    assert (edit.kind, edit.name, edit.summary, edit.removed) == ("scene", "Tea", "tea and pots", False)
    assert [line.text for line in lines] == ["hates coffee", "likes green tea", "owns a blue pot"]
    assert [bool(line.sources) for line in lines] == [False, True, False]


def test_a_forged_source_comment_is_not_believed(memory: Memory) -> None:
    atom = memory.fact("something else")
    edit_file(memory.dir / "scene_blocks/Tea.md", "- likes green tea", f"- is rich <!-- {atom} -->\n- likes green tea")
    (edit,) = memory.projector.read_edits()
    assert edit.sections[0].lines[0].sources == ()


def test_an_edited_file_is_not_overwritten_before_it_is_read_in(memory: Memory) -> None:
    path = memory.dir / "scene_blocks/Tea.md"
    edit_file(path, "red pot", "blue pot")
    edited = path.read_bytes()
    memory.write_scene("Tea", section("Likes", ("model's own text", memory.fact("x"))))
    memory.refresh()
    memory.projector.rebuild()
    assert path.read_bytes() == edited
    memory.restart()
    memory.refresh()
    assert path.read_bytes() == edited
    assert len(memory.projector.read_edits()) == 1


def test_an_edit_that_was_applied_is_in_store_and_file_and_is_not_read_again(memory: Memory) -> None:
    path = memory.dir / "scene_blocks/Tea.md"
    edit_file(path, "red pot", "blue pot")
    apply_edits(memory, memory.projector.read_edits())
    memory.refresh()
    scene = memory.store.scene("", "Tea")
    assert scene is not None
    assert scene.sections[0].lines[1].text == "owns a blue pot"
    assert f"owns a blue pot <!-- {scene.sections[0].lines[1].sources[0]} -->" in path.read_text("utf-8")
    assert memory.projector.read_edits() == []


def test_an_edit_survives_a_restart_between_applying_and_writing(memory: Memory) -> None:
    edit_file(memory.dir / "scene_blocks/Tea.md", "red pot", "blue pot")
    apply_edits(memory, memory.projector.read_edits())
    memory.restart()
    assert memory.projector.read_edits() == []
    memory.refresh()
    assert "blue pot" in (memory.dir / "scene_blocks/Tea.md").read_text("utf-8")


def test_a_store_that_shortens_an_edit_still_gets_its_file_written(memory: Memory) -> None:
    path = memory.dir / "scene_blocks/Tea.md"
    edit_file(path, "red pot", "very long pot")
    memory.projector.read_edits()
    memory.write_scene("Tea", section("Likes", ("owns a pot", memory.fact("owns a pot"))), op="edit")
    memory.refresh()
    assert "- owns a pot <!--" in path.read_text("utf-8")
    assert memory.projector.read_edits() == []


def test_the_persona_is_edited_without_its_navigation(memory: Memory) -> None:
    path = memory.dir / "persona.md"
    edit_file(path, "- drinks tea", "- drinks green tea\n- has a cat")
    (edit,) = memory.projector.read_edits()
    assert (edit.kind, [line.text for line in edit.sections[0].lines]) == ("persona", ["drinks green tea", "has a cat"])
    assert len(edit.sections) == 1
    apply_edits(memory, [edit])
    memory.refresh()
    text = path.read_text("utf-8")
    assert "has a cat" in text
    assert "### Path: scene_blocks/Tea.md" in text
    assert [path.read_text("utf-8") for path in (memory.dir / ".backup").rglob("persona_*")] == []


def test_edits_of_layout_alone_are_left_in_peace(memory: Memory) -> None:
    path = memory.dir / "scene_blocks/Tea.md"
    edit_file(path, "## Likes\n", "\n# Likes\n\n")
    edit_file(path, "heat: 1", "heat: 7")
    assert memory.projector.read_edits() == []


def test_a_deleted_scene_is_reported_and_comes_back_only_if_the_store_keeps_it(memory: Memory) -> None:
    path = memory.dir / "scene_blocks/Tea.md"
    path.unlink()
    memory.write_persona(section("Basics", ("new", memory.fact("new"))))
    memory.refresh()
    assert not path.exists()
    (edit,) = memory.projector.read_edits()
    assert (edit.name, edit.removed) == ("Tea", True)
    apply_edits(memory, [edit])
    memory.refresh()
    assert not path.exists()
    assert memory.projector.read_edits() == []
    memory.write_scene("Tea", section("Likes", ("tea again", memory.fact("tea again"))))
    memory.refresh()
    assert "tea again" in path.read_text("utf-8")


def test_a_deleted_persona_stays_empty_until_a_new_one_is_written(memory: Memory) -> None:
    path = memory.dir / "persona.md"
    path.unlink()
    (edit,) = memory.projector.read_edits()
    assert (edit.kind, edit.removed, edit.sections) == ("persona", True, ())
    apply_edits(memory, [edit])
    memory.restart()
    assert memory.projector.read_edits() == []
    memory.refresh()
    assert "drinks tea" not in path.read_text("utf-8")
    memory.write_persona(section("Basics", ("walks a lot", memory.fact("walks a lot"))))
    memory.refresh()
    assert "walks a lot" in path.read_text("utf-8")


@pytest.mark.parametrize("content", ["", " \n\n"])
def test_an_emptied_file_is_put_back(memory: Memory, content: str) -> None:
    for name in ("scene_blocks/Tea.md", "persona.md"):
        whole = (memory.dir / name).read_bytes()
        (memory.dir / name).write_text(content)
        assert memory.projector.read_edits() == []
        memory.refresh()
        assert (memory.dir / name).read_bytes() == whole


def test_a_scene_that_a_person_adds_is_an_edit_and_stands_in_the_index(memory: Memory) -> None:
    (memory.dir / "scene_blocks/我的笔记.md").write_text(
        "\ufeffI keep bees\n\n* in the garden\n  behind the house\n1. two hives\n", "utf-8"
    )
    (memory.dir / "scene_blocks/.draft.md").write_text("not yet")
    (edit,) = memory.projector.read_edits()
    assert edit.name == "我的笔记"
    assert [line.text for line in edit.sections[0].lines] == [
        "I keep bees",
        "in the garden behind the house",
        "two hives",
    ]
    index = json.loads((memory.dir / ".metadata/scene_index.json").read_text("utf-8"))
    assert [entry["filename"] for entry in index] == ["Tea.md", "Work.md", "我的笔记.md"]


def test_what_cannot_be_read_is_left_as_it_is(memory: Memory) -> None:
    (memory.dir / "scene_blocks/Tea.md").write_bytes(b"\xff\xfe\x00broken")
    (memory.dir / "scene_blocks/Work.md").write_text("x" * 300_000)
    assert memory.projector.read_edits() == []
    memory.write_scene("Tea", section("Likes", ("y", memory.fact("y"))))
    memory.refresh()
    assert (memory.dir / "scene_blocks/Tea.md").read_bytes() == b"\xff\xfe\x00broken"


@pytest.mark.parametrize("written", [True, False])
def test_a_death_while_writing_is_no_edit(memory: Memory, written: bool) -> None:
    """The hash of the new text is announced, then the process dies before or after the rename."""
    path = memory.dir / "scene_blocks/Tea.md"
    before, old = path.read_bytes(), memory.store.projection_hashes("")["scene_blocks/Tea.md"]
    memory.write_scene("Tea", section("Likes", ("newer", memory.fact("newer"))))
    memory.refresh()
    new = memory.store.projection_hashes("")["scene_blocks/Tea.md"]
    memory.store.set_projection_hash("", "scene_blocks/Tea.md", f"{old}+{new}")
    if not written:
        path.write_bytes(before)
    memory.write_scene("Tea", section("Likes", ("newest", memory.fact("newest"))))
    memory.restart()
    assert memory.projector.read_edits() == []
    memory.refresh()
    assert "newest" in path.read_text("utf-8")
    assert memory.store.projection_hashes("")["scene_blocks/Tea.md"].count("+") == 0


def test_a_death_before_a_first_write_is_no_deletion(memory: Memory) -> None:
    memory.store.set_projection_hash("", "scene_blocks/Tea.md", "+abc")
    os.unlink(memory.dir / "scene_blocks/Tea.md")
    memory.restart()
    assert memory.projector.read_edits() == []
    memory.refresh()
    assert (memory.dir / "scene_blocks/Tea.md").exists()


def test_an_edit_of_a_scene_that_was_merged_meanwhile_is_kept(memory: Memory) -> None:
    path = memory.dir / "scene_blocks/Work.md"
    edit_file(path, "writes code", "writes a lot of code")
    memory.write_scene("Tea", Section("All", ()), op="merge", absorbed=("Work",))
    memory.refresh()
    assert "writes a lot of code" in path.read_text("utf-8")
    assert [edit.name for edit in memory.projector.read_edits()] == ["Work"]


def test_edits_of_many_users_are_found_in_turn_and_those_of_a_changed_one_at_once(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "data")
    users = [f"user{number:03}" for number in range(2 * CHECKED_SCOPES)]
    for user in users:
        memory.say("hello", "hello", scope=user)
        write_persona_of(memory, user, "drinks tea")
    memory.refresh()
    memory.projector.read_edits()
    last = users[-1]
    for user in (users[0], last):
        path = scope_dir(memory.dir, user) / "persona.md"
        edit_file(path, "drinks tea", "drinks coffee")
    rounds = [{edit.scope for edit in memory.projector.read_edits()} for _ in range(2)]
    assert rounds[0] != rounds[1], "one round does not look everywhere"
    assert rounds[0] | rounds[1] == {users[0], last}
    write_persona_of(memory, last, "drinks milk")
    assert all(last in {edit.scope for edit in memory.projector.read_edits()} for _ in range(2)), "about to be written"
    memory.store.close()


def write_persona_of(memory: Memory, user: str, text: str) -> None:
    memory.turns += 1
    message = NewMessage(Role.USER, text, NOW, Origin.OWNER_EDIT)
    turn = NewTurn(user, f"p_{memory.turns}", "owner", "owner", (message,), NOW, "edit")
    memory.store.edit_documents(user, [], Persona(user, 0, (section("Basics", (text,)),), NOW, "test"), turn, NOW)
