"""What a person rewrites in a file takes the place of the fact that stood there, everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from layer_parts import START, capture
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.layers.hand_edits import rewritten_lines
from memory_tencentdb_worker.models import Filter, Line, Origin, Section
from memory_tencentdb_worker.recall.past import read_past
from memory_tencentdb_worker.recall.render import stable_part
from memory_tencentdb_worker.service.trace import trace
from pipeline_parts import Running, running_pipeline, wait_for


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Running]:
    with running_pipeline(tmp_path, files=True) as running:
        capture(running.store, Config(), "I live in Oslo. I have a dog called Rex.", now=START, at=START)
        running.flush()
        wait_for((tmp_path / "persona.md").exists, "the files")
        running.clock.now += 1_000
        yield running


def rewrite(memory: Running, file: str, old: str, new: str) -> None:
    path = memory.data_dir / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    memory.pipeline.wake()
    line = new.splitlines()[-1].removeprefix("- ")
    wait_for(lambda: line in str([memory.store.persona(""), memory.store.scenes("")]), "the edit to be taken in")


def contents(memory: Running, query: str) -> list[str]:
    return [hit.atom.content for hit in memory.store.search_atoms(query, Filter(""), 10)]


@pytest.mark.parametrize("file", ["scene_blocks/Home-and-family.md", "persona.md"])
def test_a_rewritten_line_supersedes_the_fact_everywhere(memory: Running, file: str) -> None:
    (old,) = (hit.atom for hit in memory.store.search_atoms("Oslo", Filter(""), 10))
    rewrite(memory, file, "lives in Oslo.", "lives in Rome.")
    before = memory.store.atom("", old.id)
    assert before is not None
    assert not before.live
    assert contents(memory, "lives") == ["The user lives in Rome."]
    new = memory.store.atom("", before.superseded_by or "")
    assert new is not None
    assert (new.origin, new.type, new.priority) == (Origin.OWNER_EDIT, old.type, old.priority)
    for document in (memory.store.persona(""), *memory.store.scenes("")):
        assert document is not None
        text = str(document.sections)
        assert "Oslo" not in text
        assert "Rex" not in text or "dog" in text
    assert "The user lives in Rome." in [message.text for message in trace("persona", memory.store, UTC).messages]


def test_before_the_edit_the_former_fact_was_known(memory: Running) -> None:
    rewrite(memory, "persona.md", "lives in Oslo.", "lives in Rome.")
    then = read_past(memory.store, "", START, 15).persona
    assert then is not None
    assert "Oslo" in str(then.sections)
    assert "Rome" not in str(then.sections)


def test_a_line_that_was_taken_away_or_added_replaces_nothing(memory: Running) -> None:
    rewrite(memory, "persona.md", "- The user lives in Oslo.", "- The user lives in Oslo.\n- The user owns a red boat.")
    assert contents(memory, "lives Oslo") == ["The user lives in Oslo."]
    assert memory.store.counts().superseded == 0


def test_an_edited_fact_is_not_worked_into_the_scenes_again(memory: Running) -> None:
    rewrite(memory, "persona.md", "lives in Oslo.", "lives in Rome.")
    memory.flush()
    scenes = [line.text for scene in memory.store.scenes("") for part in scene.sections for line in part.lines]
    assert scenes.count("The user lives in Rome.") == 1


def test_rewritten_lines_are_those_at_the_same_place() -> None:
    def body(*texts: str) -> tuple[Section, ...]:
        return (Section("A", tuple(Line(text, ()) for text in texts)),)

    def pairs(before: tuple[Section, ...], after: tuple[Section, ...]) -> list[tuple[str, str]]:
        return [(old.text, new.text) for old, new in rewritten_lines(before, after)]

    assert pairs(body("a", "b", "c"), body("a", "x", "c")) == [("b", "x")]
    assert pairs(body("a", "b"), body("b", "a")) == []
    assert pairs(body("a", "b"), body("a")) == []
    assert pairs(body("a"), body("a", "b")) == []
    assert pairs(body("a", "b", "c"), body("x", "y", "c")) == [("a", "x"), ("b", "y")]


def test_an_overlong_hand_edit_is_kept_whole_and_the_prompt_gets_its_beginning(memory: Running) -> None:
    lines = "\n".join(f"- The user owns boat number {number}." for number in range(200))
    rewrite(memory, "persona.md", "- The user lives in Oslo.", f"- The user lives in Oslo.\n{lines}")
    persona = memory.store.persona("")
    assert persona is not None
    assert sum(len(part.lines) for part in persona.sections) == 202
    prompt = stable_part(persona, ())
    assert "boat number 10." in prompt
    assert "boat number 199." not in prompt
    endless = replace(persona, sections=(Section("A", (Line("x" * 9_000, ()),)),))
    assert 1_900 < len(stable_part(endless, ())) - len(stable_part(replace(persona, sections=()), ())) < 2_800
