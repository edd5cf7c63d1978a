"""What was recalled and comes back as if somebody had said it leaves no trace, in every shape that is handed out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest

from memory_tencentdb_worker.models import Line, Persona, Role, Scene, Section
from memory_tencentdb_worker.recall.rank import Candidate
from memory_tencentdb_worker.recall.render import atom_item, message_item, recall_line, search_text, stable_part
from memory_tencentdb_worker.text.clean import clean_text
from memory_tencentdb_worker.text.recalled import RECALL_HEADER
from service_parts import MARCH_5, make_atom, make_message

SECTIONS = (
    Section("About the user", (Line("The user keeps bees (12 hives).", ("m_1",)), Line("The user sails.", ("m_2",)))),
    Section("Standing requests", (Line("Answer in German.", ("m_3",)),)),
)
PERSONA = Persona("", 1, SECTIONS, MARCH_5, "test")
SCENES = [
    Scene("", name, 1, summary, SECTIONS, 1, MARCH_5, MARCH_5)
    for name, summary in (("Bees", "Twelve hives (and more)."), ("Sailing", ""))
]
ATOM = replace(make_atom(1, "The user keeps bees."), scene_name="Bees (and hives)")
MESSAGE = replace(make_message(1, "I keep bees."), session_key="telegram (main)")
LINES = [
    recall_line(Candidate(ATOM.id, 1.0, atom=ATOM), ATOM.content, UTC),
    recall_line(Candidate(MESSAGE.id, 1.0, message=MESSAGE), MESSAGE.text, UTC),
]
ITEMS = [atom_item(ATOM, 1.0, UTC), message_item(MESSAGE, 1.0, UTC, ())]

SHAPES = {
    "recalled lines": "\n".join([RECALL_HEADER, *LINES]),
    "stable part": stable_part(PERSONA, SCENES),
    "persona alone": stable_part(PERSONA, []),
    "scenes alone": stable_part(None, SCENES),
    "one memory": search_text(ITEMS[:1], "memory"),
    "two messages": search_text([ITEMS[1], ITEMS[1]], "message"),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("role", list(Role))
def test_what_was_handed_out_is_not_taken_in_again(shape: str, role: Role) -> None:
    assert clean_text(shape, role) == ""
    around = clean_text(f"Is this right?\n\n{shape}\n\nI think so.", role)
    assert " ".join(around.split()) == "Is this right? I think so."


def test_the_whole_context_leaves_no_trace() -> None:
    assert clean_text(SHAPES["stable part"] + "\n\n" + SHAPES["recalled lines"], Role.USER) == ""
