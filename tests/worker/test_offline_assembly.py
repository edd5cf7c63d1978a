"""Atoms against known atoms, and scenes and a persona put together from them, without a model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory_tencentdb_worker.models import (
    Atom,
    AtomChanges,
    AtomType,
    Line,
    NewAtom,
    Origin,
    Persona,
    Scene,
    SceneChange,
    Section,
    Source,
)
from memory_tencentdb_worker.offline.assemble import assemble_persona, assemble_scenes
from memory_tencentdb_worker.offline.reconcile import plan_changes
from memory_tencentdb_worker.offline.slots import slot_of, slot_query

NOW = 1_772_600_000_000


def new_atom(id: str, content: str, type: AtomType = AtomType.PERSONA, scene: str = "Home and family") -> NewAtom:
    return NewAtom(
        id=id,
        type=type,
        content=content,
        priority=60,
        scene_name=scene,
        origin=Origin.USER,
        sources=(Source(f"l0_{id}", "hash"),),
        session_key="s",
        session_id="s",
    )


def atom(
    id: str, content: str, type: AtomType = AtomType.PERSONA, scene: str = "Home and family", seq: int = 1
) -> Atom:
    return Atom(
        seq=seq,
        id=id,
        scope="",
        type=type,
        content=content,
        priority=60,
        scene_name=scene,
        origin=Origin.USER,
        extractor="rules",
        session_key="s",
        session_id="s",
        activity_start=None,
        activity_end=None,
        valid_from=NOW,
        valid_to=None,
        recorded_from=NOW,
        superseded_at=None,
        superseded_by=None,
        sources=(Source(f"l0_{id}", "hash"),),
    )


def planned(new: list[NewAtom], known: list[Atom]) -> AtomChanges:
    """The known atoms were said first, the new ones after them."""
    return plan_changes(new, known, {one.id: order for order, one in enumerate([*known, *new])})


def lines(change: SceneChange) -> list[str]:
    return [line.text for section in change.scene.sections for line in section.lines]


def test_the_same_words_confirm_whatever_their_case_and_width() -> None:
    changes = planned([new_atom("m_2", "The user  lives in PORTO.")], [atom("m_1", "The user lives in Porto.")])
    assert changes.add == ()
    assert changes.confirm == (("m_1", (Source("l0_m_2", "hash"),)),)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The user lives in Berlin.", "The user lives in Lisbon."),
        ("The user lives in Berlin.", "The user moved to Lisbon last week (2026-02-23..2026-03-01)."),
        ("The user works at Siemens as a nurse.", "The user works for Fraunhofer."),
        ("The user's name is Marta.", "The user's name is Martha."),
        ("Call the user Max.", "Call the user Maxine."),
        ("Answer in German.", "Always answer in Portuguese."),
        ("用户住在杭州。", "用户刚搬到深圳。"),
        ("称呼用户为老王。", "称呼用户为小王。"),
        ("The user works at Siemens.", "The user no longer works at Siemens."),
    ],
)
def test_a_new_value_of_a_single_value_slot_supersedes(old: str, new: str) -> None:
    changes = planned([new_atom("m_2", new)], [atom("m_1", old)])
    assert [added.id for added in changes.add] == ["m_2"]
    assert changes.supersede == (("m_1", "m_2"),)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The user loves tea.", "The user loves coffee."),
        ("The user works at Siemens.", "The user also works at a bakery."),
        ("The user lives in Berlin.", "The user and others moved to Kubernetes."),
        ("The user lives in Berlin.", "The user moved to Python 3.12 last week."),
        ("The user works at Siemens.", "The user no longer works at Bosch."),
        ("The user lives in Berlin.", "The user's sister Ana lives in Porto."),
    ],
)
def test_facts_that_can_both_be_true_stand_beside_each_other(old: str, new: str) -> None:
    changes = planned([new_atom("m_2", new)], [atom("m_1", old)])
    assert changes.supersede == ()
    assert len(changes.add) == 1


def test_the_later_of_two_values_in_one_batch_supersedes_the_earlier() -> None:
    changes = planned(
        [new_atom("m_2", "The user lives in Rome."), new_atom("m_3", "The user lives in Oslo.")],
        [atom("m_1", "The user lives in Berlin.")],
    )
    assert [added.id for added in changes.add] == ["m_2", "m_3"]
    assert changes.supersede == (("m_1", "m_2"), ("m_2", "m_3"))


@pytest.mark.parametrize("known", ["The user lives in Rome.", "The user no longer lives in Oslo."])
def test_a_value_said_before_the_known_one_does_not_replace_it(known: str) -> None:
    changes = plan_changes([new_atom("m_1", "The user lives in Oslo.")], [atom("m_2", known)], {"m_1": 1, "m_2": 2})
    assert [added.id for added in changes.add] == ["m_1"]
    assert changes.supersede == (("m_1", "m_2"),)


def test_a_slot_knows_when_it_has_ended() -> None:
    slot = slot_of("The user no longer lives in Berlin.")
    assert slot is not None
    assert (slot.name, slot.value, slot.ended) == ("home", "berlin", True)


def test_every_atom_becomes_a_line_with_its_source_in_the_scene_of_its_theme() -> None:
    changes = assemble_scenes(
        [
            atom("m_1", "The user lives in Porto."),
            atom("m_2", "用户对花生过敏。", scene="饮食与健康"),
            atom("m_3", "The user adopted a dog.", AtomType.EPISODIC),
        ],
        [],
        15,
        1500,
        NOW,
    )
    assert [(change.op, change.scene.name, change.scene.heat) for change in changes] == [
        ("create", "Home-and-family", 1),
        ("create", "饮食与健康", 1),
    ]
    assert [section.heading for section in changes[0].scene.sections] == ["About the user", "What happened"]
    assert changes[0].scene.sections[0].lines == (Line("The user lives in Porto.", ("m_1",)),)
    assert changes[1].scene.sections[0].heading == "关于用户"


def known_scene(*texts: str, name: str = "Home-and-family") -> Scene:
    section = Section("About the user", tuple(Line(text, (f"m_{index}",)) for index, text in enumerate(texts)))
    return Scene("", name, 1, texts[0], (section,), heat=1, created_at=NOW - 1, updated_at=NOW - 1)


def test_an_update_keeps_the_old_lines_and_warms_the_scene() -> None:
    (change,) = assemble_scenes(
        [atom("m_9", "The user has two cats.")], [known_scene("The user lives in Porto.")], 15, 1500, NOW
    )
    assert (change.op, change.scene.heat, change.scene.revision, change.scene.updated_at) == ("update", 2, 2, NOW)
    assert lines(change) == ["The user lives in Porto.", "The user has two cats."]


def test_a_line_that_is_no_longer_true_goes_from_whichever_scene_holds_it() -> None:
    old = known_scene("The user lives in Berlin.", "The user has two cats.", name="Daily-life")
    changes = assemble_scenes([atom("m_9", "The user moved to Lisbon.", AtomType.EPISODIC)], [old], 15, 1500, NOW)
    assert {change.scene.name: lines(change) for change in changes} == {
        "Home-and-family": ["The user moved to Lisbon."],
        "Daily-life": ["The user has two cats."],
    }


def test_there_are_never_more_scenes_than_allowed() -> None:
    old = known_scene("The user lives in Porto.")
    changes = assemble_scenes([atom("m_9", "The user codes.", scene="Work")], [old], 1, 1500, NOW)
    assert [(change.op, change.scene.name) for change in changes] == [("update", "Home-and-family")]


def test_a_scene_over_its_limit_loses_its_oldest_happenings_first() -> None:
    atoms = [atom(f"m_{n}", f"The user did thing number {n}.", AtomType.EPISODIC) for n in range(40)]
    (change,) = assemble_scenes([atom("m_p", "The user lives in Porto."), *atoms], [], 15, 500, NOW)
    kept = lines(change)
    assert kept[0] == "The user lives in Porto."
    assert kept[-1] == "The user did thing number 39."
    assert sum(len(text) for text in kept) < 500


def test_the_persona_holds_requests_and_facts_but_no_happenings() -> None:
    atoms = [
        atom("m_1", "The user lives in Porto."),
        atom("m_2", "Always answer in Portuguese.", AtomType.INSTRUCTION, "Rules"),
        atom("m_3", "The user bought a bike.", AtomType.EPISODIC),
    ]
    scenes = [change.scene for change in assemble_scenes(atoms, [], 15, 1500, NOW)]
    persona = assemble_persona(scenes, None, 2000, NOW, "")
    assert [(section.heading, [line.text for line in section.lines]) for section in persona.sections] == [
        ("Standing requests", ["Always answer in Portuguese."]),
        ("About the user", ["The user lives in Porto."]),
    ]
    assert persona.sections[1].lines[0].sources == ("m_1",)


def test_the_persona_never_passes_its_limit() -> None:
    scene = known_scene(*[f"The user likes thing number {n}." for n in range(200)])
    persona = assemble_persona([scene], None, 300, NOW, "")
    size = sum(
        len(section.heading) + 4 + sum(len(line.text) + 3 for line in section.lines) for section in persona.sections
    )
    assert 200 < size <= 300


def test_the_persona_keeps_what_the_changed_scenes_do_not_mention_and_drops_the_old_home() -> None:
    old = Persona(
        "",
        3,
        (
            Section(
                "About the user", (Line("The user lives in Berlin.", ("m_1",)), Line("The user loves tea.", ("m_2",)))
            ),
        ),
        NOW - 1,
        "rules",
    )
    persona = assemble_persona([known_scene("The user lives in Lisbon.")], old, 2000, NOW, "")
    assert [line.text for line in persona.sections[0].lines] == ["The user lives in Lisbon.", "The user loves tea."]
    assert persona.revision == 4


def test_a_heading_of_the_owner_stays_first() -> None:
    old = Persona("", 1, (Section("Mine", (Line("I am the owner.", ("l0_1",)),)),), NOW - 1, "edit")
    persona = assemble_persona([known_scene("The user lives in Porto.")], old, 2000, NOW, "")
    assert [section.heading for section in persona.sections] == ["Mine", "About the user"]
    assert replace(old, revision=2).sections[0] == persona.sections[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("The user moved to Lisbon.", "lives"),
        ("The user works at Siemens.", "works"),
        ("用户刚搬到深圳。", "住在"),
        ("用中文回答。", "回答"),
        ("The user loves tea.", ""),
    ],
)
def test_a_slot_is_searched_for_by_the_other_ways_to_put_it(content: str, words: str) -> None:
    assert words in slot_query(content)
    assert bool(slot_query(content)) == bool(words)
