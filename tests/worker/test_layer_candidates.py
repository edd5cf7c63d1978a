"""Which known atoms a new one is compared with: all of a few, later only those that may concern the same fact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from layer_parts import START, ScriptedLLM, capture, lease, parts_of, remember
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.layers import l1_atoms
from memory_tencentdb_worker.layers.candidates import related_atoms
from memory_tencentdb_worker.layers.outcome import Done
from memory_tencentdb_worker.models import JobKind
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.sqlite import open_store

CONFIG = Config()
MOST = 5
KNOWN = (
    "The user lives in Porto.",
    "The user is allergic to walnuts.",
    "The user said that the ferry was late.",
    "The user's brother Eskil hates football.",
    "The user owns a blue Saab.",
    "The user plays the oboe.",
    "The user wears glasses.",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data", START)
    yield opened
    opened.close()


def know(store: Store, contents: Sequence[str]) -> None:
    for number, content in enumerate(contents):
        llm = ScriptedLLM()
        llm.script("l1-extraction", remember(content))
        capture(store, CONFIG, content, session_key=f"s{number}")
        assert l1_atoms.run(lease(store, JobKind.L1, START), parts_of(store, CONFIG, llm), START) == Done(1)


def related(store: Store, content: str) -> list[str]:
    return [atom.content for atom in related_atoms(content, None, "", store, MOST).values()]


def test_among_a_few_atoms_everything_is_compared(store: Store) -> None:
    know(store, KNOWN[:3])
    assert sorted(related(store, "The user eats anything.")) == sorted(KNOWN[:3])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("The user grows tomatoes.", []),
        ("The user mentioned that the garden is large.", []),
        ("The user sold the blue car.", ["The user owns a blue Saab."]),
        ("The user can eat walnuts now.", ["The user is allergic to walnuts."]),
        ("The user moved to Braga.", ["The user lives in Porto."]),
    ],
)
def test_among_many_only_what_may_concern_the_same_fact(store: Store, content: str, expected: list[str]) -> None:
    know(store, KNOWN)
    assert related(store, content) == expected
