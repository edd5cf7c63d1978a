"""L2 and L3: operations are bounded by code, names never multiply, and no line stands without a source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from layer_parts import START, Cut, ScriptedLLM, capture, lease, parts_of, records, remember, section
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import LLMTerminal, LLMTransient
from memory_tencentdb_worker.layers import l1_atoms, l2_scenes, l3_persona
from memory_tencentdb_worker.layers.outcome import Done, Outcome, Parked, Paused, Retry
from memory_tencentdb_worker.models import Atom, CompletionRequest, JobKind, Layer, Page, Persona, Scene, Section
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.sqlite import open_store

CONFIG = Config()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data", START)
    yield opened
    opened.close()


@pytest.fixture
def llm() -> ScriptedLLM:
    return ScriptedLLM()


def know(store: Store, llm: ScriptedLLM, *contents: str, session: str = "s1", **more: Any) -> list[Atom]:
    made = []
    for content in contents:
        capture(store, CONFIG, f"I say: {content}", "", session_key=session)
        llm.script("l1-extraction", remember(content, **more))
        l1_atoms.run(lease(store, JobKind.L1, START), parts_of(store, CONFIG, llm), START)
        rows = store.list_rows(Layer.L1, Page(limit=1), scope="").rows
        assert isinstance(rows[0], Atom)
        made.append(rows[0])
    return made


def work_in(store: Store, llm: ScriptedLLM | None, *operations: Any, config: Config = CONFIG, **more: Any) -> Outcome:
    if llm:
        llm.script("l2-scenes", {"operations": list(operations), **more})
    return l2_scenes.run(lease(store, JobKind.L2, START), parts_of(store, config, llm), START)


def write_persona(store: Store, llm: ScriptedLLM | None, *replies: Any) -> Outcome:
    if llm:
        llm.script("l3-persona", *replies)
    return l3_persona.run(lease(store, JobKind.L3, START), parts_of(store, CONFIG, llm), START)


def op(kind: str, scene: str, *lines: tuple[str, list[str]], heading: str = "Facts", **more: Any) -> dict[str, Any]:
    texts = [{"text": text, "sources": sources} for text, sources in lines]
    return {"op": kind, "scene": scene, "sections": [{"heading": heading, "lines": texts}] if lines else [], **more}


def lines(sections: tuple[Section, ...]) -> dict[str, tuple[str, ...]]:
    return {line.text: line.sources for part in sections for line in part.lines}


def scene(store: Store, name: str) -> Scene:
    found = next((one for one in store.scenes("") if one.name == name), None)
    assert found is not None, [one.name for one in store.scenes("")]
    return found


def test_scene_is_created_and_later_updated_under_the_same_name(store: Store, llm: ScriptedLLM) -> None:
    (tea,) = know(store, llm, "The user likes tea.")
    assert work_in(store, llm, op("create", "Tea and code.md", ("Likes tea.", [tea.id]), summary="Tea")) == Done(1)
    name = store.scenes("")[0].name
    for number in range(3):
        (more,) = know(store, llm, f"The user likes tea number {number}.")
        known = lines(store.scenes("")[0].sections)
        body = [*((text, list(sources)) for text, sources in known.items()), (f"Likes {number}.", [more.id])]
        work_in(store, llm, op("update" if number else "create", "Tea and code", *body))
    assert [one.name for one in store.scenes("")] == [name]
    assert scene(store, name).heat == 4
    assert len(lines(scene(store, name).sections)) == 4


def test_prompt_shows_atoms_scenes_and_limits(store: Store, llm: ScriptedLLM) -> None:
    (tea,) = know(store, llm, "The user likes </atoms> tea.")
    work_in(store, llm, op("create", "Tea", ("Likes tea.", [tea.id])))
    know(store, llm, "The user likes chess.")
    work_in(store, llm)
    request = llm.asked("l2-scenes")[1]
    assert records(request, "scenes")[0]["sections"] == [
        {"heading": "Facts", "lines": [{"text": "Likes tea.", "sources": ["m_2"]}]}
    ]
    assert records(request, "limits") == [{"max_scenes": 15, "count": 1, "max_chars": 1500}]
    assert records(llm.asked("l2-scenes")[0], "atoms")[0]["content"] == "The user likes </atoms> tea."


def test_line_without_a_known_source_is_refused_and_its_atom_is_still_placed(store: Store, llm: ScriptedLLM) -> None:
    (tea,) = know(store, llm, "The user likes tea.")
    outcome = work_in(
        store, llm, op("create", "Tea", ("The user is a spy.", ["m_0000000000000000"]), ("No source.", []))
    )
    assert outcome == Done(1, refused=2)
    (made,) = store.scenes("")
    assert lines(made.sections) == {"The user likes tea.": (tea.id,)}


def test_atoms_that_the_answer_left_out_are_placed_by_code(store: Store, llm: ScriptedLLM) -> None:
    tea, chess = know(store, llm, "The user likes tea.", "The user plays chess.")
    work_in(store, llm, op("create", "Tea", ("Likes tea.", [tea.id])))
    placed = {source for one in store.scenes("") for sources in lines(one.sections).values() for source in sources}
    assert placed == {tea.id, chess.id}
    assert store.read_l2_batch("", "s1", 10) == []


def test_update_that_forgets_most_lines_keeps_them(store: Store, llm: ScriptedLLM) -> None:
    atoms = know(store, llm, "Fact one.", "Fact two.", "Fact three.")
    work_in(store, llm, op("create", "Facts", *((atom.content, [atom.id]) for atom in atoms)))
    (four,) = know(store, llm, "Fact four.")
    work_in(store, llm, op("update", "Facts", ("Fact four.", [four.id])))
    assert set(lines(scene(store, "Facts").sections)) == {"Fact one.", "Fact two.", "Fact three.", "Fact four."}


def test_update_may_join_lines_into_one(store: Store, llm: ScriptedLLM) -> None:
    atoms = know(store, llm, "Fact one.", "Fact two.", "Fact three.")
    work_in(store, llm, op("create", "Facts", *((atom.content, [atom.id]) for atom in atoms)))
    (four,) = know(store, llm, "Fact four.")
    work_in(store, llm, op("update", "Facts", ("All facts.", [*(atom.id for atom in atoms), four.id])))
    assert list(lines(scene(store, "Facts").sections)) == ["All facts."]


def test_merge_adds_heat_and_leaves_one_scene(store: Store, llm: ScriptedLLM) -> None:
    tea, code = know(store, llm, "The user likes tea.", "The user writes Rust.")
    work_in(store, llm, op("create", "Tea", ("Tea.", [tea.id])), op("create", "Code", ("Rust.", [code.id])))
    (both,) = know(store, llm, "The user drinks tea while writing Rust.")
    body = (("Tea.", [tea.id]), ("Rust.", [code.id]), ("Both.", [both.id]))
    work_in(store, llm, op("merge", "Code", *body, into="Tea.md"))
    assert [one.name for one in store.scenes("")] == ["Tea"]
    assert scene(store, "Tea").heat == 3
    assert len(lines(scene(store, "Tea").sections)) == 3


def test_create_beyond_the_limit_goes_into_the_closest_scene(store: Store, llm: ScriptedLLM) -> None:
    config = Config.model_validate({"memory": {"persona": {"maxScenes": 2}}})
    tea, code, green = know(store, llm, "The user likes tea.", "The user writes Rust.", "The user likes green tea.")
    work_in(
        store,
        llm,
        op("create", "Tea", ("The user likes tea.", [tea.id])),
        op("create", "Code", ("The user writes Rust.", [code.id])),
        op("create", "Green tea", ("The user likes green tea.", [green.id])),
        config=config,
    )
    assert {one.name for one in store.scenes("")} == {"Tea", "Code"}
    assert "The user likes green tea." in lines(scene(store, "Tea").sections)


def test_merge_makes_room_whatever_the_order_of_operations(store: Store, llm: ScriptedLLM) -> None:
    config = Config.model_validate({"memory": {"persona": {"maxScenes": 2}}})
    one, two, three = know(store, llm, "Fact one.", "Fact two.", "Fact three.")
    work_in(store, llm, op("create", "One", ("1.", [one.id])), op("create", "Two", ("2.", [two.id])), config=config)
    (four,) = know(store, llm, "Fact four.")
    work_in(
        store,
        llm,
        op("create", "Three", ("3.", [three.id]), ("4.", [four.id])),
        op("merge", "One", ("1.", [one.id]), ("2.", [two.id]), into="Two"),
        config=config,
    )
    assert {found.name for found in store.scenes("")} == {"Two", "Three"}


def test_body_never_exceeds_its_size_and_new_lines_stay(store: Store, llm: ScriptedLLM) -> None:
    old = know(store, llm, *(f"Old fact {number}." for number in range(4)))
    work_in(
        store, llm, op("create", "Facts", *((f"{number} " + "x" * 330, [atom.id]) for number, atom in enumerate(old)))
    )
    (new,) = know(store, llm, "New fact.")
    known = [(text, list(sources)) for text, sources in lines(scene(store, "Facts").sections).items()]
    work_in(store, llm, op("update", "Facts", *known, ("new " + "y" * 400, [new.id])))
    body = lines(scene(store, "Facts").sections)
    assert sum(map(len, body)) <= 1500
    assert (new.id,) in body.values()


@pytest.mark.parametrize(
    "name", ["../../x", "/tmp/x", "C:\\x", "CON", "", "a/b.md", "x" * 300, ".hidden", "茶 与 代码"]
)
def test_names_stay_inside_the_folder(store: Store, llm: ScriptedLLM, name: str) -> None:
    (tea,) = know(store, llm, "The user likes tea.")
    work_in(store, llm, op("create", name, ("Tea.", [tea.id])))
    (made,) = store.scenes("")
    assert "/" not in made.name
    assert "\\" not in made.name
    assert not made.name.startswith(".")
    assert 0 < len(made.name.encode()) <= 200


def test_unknown_operations_and_scenes_are_ignored(store: Store, llm: ScriptedLLM) -> None:
    (tea,) = know(store, llm, "The user likes tea.")
    outcome = work_in(
        store,
        llm,
        op("delete", "Tea"),
        op("archive", "Nothing"),
        {"op": None},
        7,
        op("create", "Tea", ("Tea.", [tea.id])),
    )
    assert outcome == Done(1, refused=3)


def test_replaced_fact_disappears_from_every_scene(store: Store, llm: ScriptedLLM) -> None:
    berlin, tea = know(store, llm, "The user lives in Berlin.", "The user likes tea.")
    work_in(store, llm, op("create", "Home", ("Berlin.", [berlin.id])), op("create", "Tea", ("Tea.", [tea.id])))
    write_persona(
        store,
        llm,
        {
            "sections": [
                {
                    "heading": "",
                    "lines": [{"text": "Berlin.", "sources": [berlin.id]}, {"text": "Tea.", "sources": ["Tea"]}],
                }
            ]
        },
    )

    def update(request: CompletionRequest) -> Any:
        new = records(request, "new")[0]
        return [{"record_id": new["id"], "action": "update", "target_ids": [berlin.id], "merged_content": "Lisbon."}]

    llm.script("l1-reconcile", update)
    (lisbon,) = know(store, llm, "The user lives in Lisbon.")
    work_in(store, llm, op("update", "Tea", ("Tea in Lisbon.", [tea.id, lisbon.id])))
    assert [one.name for one in store.scenes("")] == ["Tea"], "nothing in the other one holds any more"
    write_persona(store, llm, {"sections": [{"heading": "", "lines": [{"text": "Lisbon.", "sources": [lisbon.id]}]}]})
    assert berlin.id not in section(llm.asked("l3-persona")[1], "persona")


def test_answers_that_cannot_be_used_park_the_job_and_keep_its_input(store: Store, llm: ScriptedLLM) -> None:
    know(store, llm, "The user likes tea.")
    llm.script("l2-scenes", "I would rather chat.")
    assert l2_scenes.run(lease(store, JobKind.L2, START), parts_of(store, CONFIG, llm), START) == Parked("no_json")
    assert len(llm.asked("l2-scenes")) == 2
    assert store.scenes("") == []
    assert len(store.read_l2_batch("", "s1", 10)) == 1
    assert [parked.kind for parked in store.list_parked()] == [JobKind.L2]


def test_too_long_an_answer_is_asked_for_with_fewer_atoms(store: Store, llm: ScriptedLLM) -> None:
    know(store, llm, *(f"Fact {number}." for number in range(4)))
    llm.script("l2-scenes", Cut('{"operations": ['), {"operations": []})
    assert l2_scenes.run(lease(store, JobKind.L2, START), parts_of(store, CONFIG, llm), START) == Done(1)
    assert len(records(llm.asked("l2-scenes")[1], "atoms")) == 2
    assert len(store.read_l2_batch("", "s1", 10)) == 2


def test_failures_of_the_endpoint_move_nothing(store: Store, llm: ScriptedLLM) -> None:
    know(store, llm, "The user likes tea.")
    llm.script("l2-scenes", LLMTransient("busy"), LLMTerminal("no key"))
    held = lease(store, JobKind.L2, START)
    assert l2_scenes.run(held, parts_of(store, CONFIG, llm), START) == Retry("busy")
    assert l2_scenes.run(held, parts_of(store, CONFIG, llm), START) == Paused("llm_terminal", "no key")
    assert len(store.read_l2_batch("", "s1", 10)) == 1


# --------------------------------------------------------------------------------------------------- persona


def persona(store: Store) -> Persona:
    found = store.persona("")
    assert found is not None
    return found


@pytest.fixture
def tea(store: Store, llm: ScriptedLLM) -> Atom:
    (atom,) = know(store, llm, "The user likes tea.")
    work_in(store, llm, op("create", "Tea", ("Tea.", [atom.id])), persona_update_reason="a new person")
    return atom


def portrait(*lines: tuple[str, list[str]]) -> dict[str, Any]:
    return {"sections": [{"heading": "Who", "lines": [{"text": text, "sources": sources} for text, sources in lines]}]}


def test_persona_rests_on_atoms_or_scenes(store: Store, llm: ScriptedLLM, tea: Atom) -> None:
    outcome = write_persona(store, llm, portrait(("Likes tea.", [tea.id, "Tea.md"]), ("Is a spy.", ["Spies"])))
    assert outcome == Done(1, refused=1)
    assert lines(persona(store).sections) == {"Likes tea.": (tea.id, "Tea")}
    assert persona(store).reason == "a new person"
    assert store.changed_scenes("") == []


@pytest.mark.parametrize(
    "reply",
    ["I'm sorry, but I can't help with that.", {"sections": []}, portrait(("I'm sorry.", [])), {"sections": "none"}],
)
def test_old_persona_stays_when_the_answer_is_no_persona(
    store: Store, llm: ScriptedLLM, tea: Atom, reply: object
) -> None:
    write_persona(store, llm, portrait(("Likes tea.", [tea.id])))
    know(store, llm, "The user likes chess.")
    work_in(store, llm)
    assert isinstance(write_persona(store, llm, reply), Parked)
    assert list(lines(persona(store).sections)) == ["Likes tea."]


def test_overlong_persona_is_cut_at_its_end(store: Store, llm: ScriptedLLM, tea: Atom) -> None:
    body = [(f"{number} " + "x" * 600, [tea.id]) for number in range(5)]
    assert write_persona(store, llm, portrait(*body)) == Done(1, refused=2)
    assert [text[0] for text in lines(persona(store).sections)] == ["0", "1", "2"]


def test_persona_of_one_endless_line_is_parked(store: Store, llm: ScriptedLLM, tea: Atom) -> None:
    assert write_persona(store, llm, portrait(("x" * 60_000, [tea.id]))) == Parked("too_long")
    assert store.persona("") is None


def test_without_a_model_rules_build_scenes_and_persona(store: Store) -> None:
    capture(store, CONFIG, "My name is Ada. I live in Porto. Always answer in metric units.", "ok")
    l1_atoms.run(lease(store, JobKind.L1, START), parts_of(store, CONFIG, None), START)
    assert isinstance(work_in(store, None), Done)
    assert write_persona(store, None) == Done(1)
    text = " ".join(lines(persona(store).sections))
    assert "Porto" in text
    assert "metric" in text
