"""L1: which statement is the current one depends on when it was said, not on when it was read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from layer_parts import START, ScriptedLLM, capture, lease, parts_of, remember, reply_to_new
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import LLMContent
from memory_tencentdb_worker.layers import l1_atoms
from memory_tencentdb_worker.layers.outcome import Done, Parked
from memory_tencentdb_worker.models import Atom, Filter, JobKind
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.sqlite import open_store

CONFIG = Config()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data", START)
    yield opened
    opened.close()


def by_content(store: Store) -> dict[str, Atom]:
    hits = store.search_atoms("lives", Filter("", superseded=True), 50)
    return {hit.atom.content: hit.atom for hit in hits}


def read_oslo_after_rome(store: Store, late: ScriptedLLM | None) -> dict[str, Atom]:
    """Oslo was said first, but could not be read then."""
    refusing, rome = ScriptedLLM(), ScriptedLLM()
    refusing.script("l1-extraction", LLMContent("no", code="content_filter", raw="no"))
    rome.script("l1-extraction", remember("The user lives in Rome.", said="I live in Rome."))
    capture(store, CONFIG, "I live in Oslo.", session_key="s1", at="2026-01-01T00:00:00Z")
    assert l1_atoms.run(lease(store, JobKind.L1, START), parts_of(store, CONFIG, refusing), START) == Parked(
        "content_filter"
    )
    capture(store, CONFIG, "I live in Rome.", session_key="s2", at="2026-06-01T00:00:00Z")
    assert l1_atoms.run(lease(store, JobKind.L1, START), parts_of(store, CONFIG, rome), START) == Done(1)
    store.make_due(START, expedite=True, parked=True)
    assert l1_atoms.run(lease(store, JobKind.L1, START), parts_of(store, CONFIG, late), START) == Done(1)
    return by_content(store)


@pytest.mark.parametrize("with_model", [True, False])
def test_older_statement_read_late_does_not_replace_the_newer_one(store: Store, with_model: bool) -> None:
    late = ScriptedLLM()
    late.script("l1-extraction", remember("The user lives in Oslo.", said="I live in Oslo."))
    late.script("l1-reconcile", reply_to_new("update", merged_content="The user moved to Oslo."))
    atoms = read_oslo_after_rome(store, late if with_model else None)
    oslo, rome = atoms["The user lives in Oslo."], atoms["The user lives in Rome."]
    assert rome.live
    assert rome.valid_to is None
    assert oslo.superseded_by == rome.id
    assert oslo.valid_to == rome.valid_from
    assert set(oslo.sources) < set(rome.sources)


def test_merge_with_a_newer_statement_stores_the_older_one_beside_it(store: Store) -> None:
    late = ScriptedLLM()
    late.script("l1-extraction", remember("The user lives in Oslo.", said="I live in Oslo."))
    late.script("l1-reconcile", reply_to_new("merge", merged_content="The user lives in Oslo and Rome."))
    atoms = read_oslo_after_rome(store, late)
    assert {content for content, atom in atoms.items() if atom.live} == {
        "The user lives in Oslo.",
        "The user lives in Rome.",
    }


def test_value_between_two_known_ones_takes_its_place_in_the_row(store: Store) -> None:
    llm = ScriptedLLM()
    llm.script("l1-extraction", remember("The user lives in Bonn.", said="I live in Bonn."))
    capture(store, CONFIG, "I live in Bonn.", session_key="s0", at="2025-06-01T00:00:00Z")
    l1_atoms.run(lease(store, JobKind.L1, START), parts_of(store, CONFIG, llm), START)
    late = ScriptedLLM()
    late.script("l1-extraction", remember("The user lives in Oslo.", said="I live in Oslo."))
    late.script("l1-reconcile", reply_to_new("update"))
    atoms = read_oslo_after_rome(store, late)
    assert [atoms[f"The user lives in {city}."].live for city in ("Bonn", "Oslo", "Rome")] == [False, False, True]
    assert atoms["The user lives in Bonn."].superseded_by == atoms["The user lives in Oslo."].id
