"""L2 with many scenes: those that matter are shown whole, and what was not shown cannot be lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from layer_parts import START, ScriptedLLM, capture, lease, parts_of, records, remember
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.layers import l1_atoms, l2_scenes
from memory_tencentdb_worker.layers.shown_scenes import WHOLE_SCENES
from memory_tencentdb_worker.models import CompletionRequest, JobKind, Scene
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.sqlite import open_store

CONFIG = Config()
THEMES = ("oboe", "walnuts", "ferries", "tomatoes", "glaciers", "lighthouses", "beekeeping", "chess", "pottery")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data", START)
    yield opened
    opened.close()


@pytest.fixture
def llm(store: Store) -> ScriptedLLM:
    """One scene for each theme stands already."""
    model = ScriptedLLM()
    for theme in THEMES:
        work_in(store, model, f"The user is fond of {theme}.", "create", theme)
    return model


def work_in(store: Store, llm: ScriptedLLM, fact: str, op: str, scene: str) -> None:
    def answer(request: CompletionRequest) -> Any:
        lines = [{"text": atom["content"], "sources": [atom["id"]]} for atom in records(request, "atoms")]
        return {"operations": [{"op": op, "scene": scene, "sections": [{"heading": "Facts", "lines": lines}]}]}

    capture(store, CONFIG, f"I say: {fact}", "")
    llm.script("l1-extraction", remember(fact, said=f"I say: {fact}"))
    llm.script("l2-scenes", answer)
    l1_atoms.run(lease(store, JobKind.L1, START), parts_of(store, CONFIG, llm), START)
    l2_scenes.run(lease(store, JobKind.L2, START), parts_of(store, CONFIG, llm), START)


def shown(llm: ScriptedLLM) -> list[str]:
    scenes = records(llm.asked("l2-scenes")[-1], "scenes")
    assert len(scenes) == len(THEMES)
    return [scene["name"] for scene in scenes if scene["sections"]]


def texts(scene: Scene) -> list[str]:
    return [line.text for section in scene.sections for line in section.lines]


def scene(store: Store, name: str) -> Scene | None:
    return next((one for one in store.scenes("") if one.name == name), None)


@pytest.mark.parametrize("theme", [THEMES[0], THEMES[-1]])
def test_the_scene_that_a_new_fact_belongs_to_is_shown_whole(store: Store, llm: ScriptedLLM, theme: str) -> None:
    work_in(store, llm, f"The user talked about {theme} again.", "update", theme)
    assert len(shown(llm)) == WHOLE_SCENES
    assert theme in shown(llm)


@pytest.mark.parametrize("op", ["update", "archive"])
def test_what_was_not_shown_is_kept_whatever_the_answer_says(store: Store, llm: ScriptedLLM, op: str) -> None:
    work_in(store, llm, "The user moved to Bergen.", "create", THEMES[0])
    hidden = next(theme for theme in THEMES if theme not in shown(llm))
    work_in(store, llm, "The user bought a kettle.", op, hidden)
    assert hidden not in shown(llm)
    kept = scene(store, hidden)
    assert kept is not None
    assert f"The user is fond of {hidden}." in texts(kept)
    everywhere = [text for one in store.scenes("") for text in texts(one)]
    assert "The user bought a kettle." in everywhere
