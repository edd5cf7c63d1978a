"""Offline, the same conversation makes the same memory, to the byte; and what a reader sees of it makes sense."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from layer_parts import START, capture
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.models import Atom
from offline_conversation import SAID
from pipeline_parts import Stepped, stepped

CONFIG = Config()
HOUR = 3_600_000
NOT_COMPARED = "meta"
"""Holds the random id of the data directory. Index tables follow from the texts and are left out too."""


def digest(steps: Stepped, data_dir: Path) -> str:
    """Over every row and column of every table that is no index: conversations, atoms with sources and validity, all
    revisions of scenes and persona, schedule, audit, with their times."""
    total = hashlib.sha256()
    connection = apsw.Connection(str(data_dir / "memory.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = connection.execute(
            "select name from sqlite_schema where type = 'table' and sql not like 'create virtual%'"
            " and name not like '%fts%' and name not like 'sqlite_%' and name <> ? order by name",
            (NOT_COMPARED,),
        ).fetchall()
        assert ("atoms",) in tables
        for (table,) in tables:
            for row in connection.execute(f'select * from "{table}" order by 1, 2'):
                total.update(repr((table, row)).encode())
    finally:
        connection.close()
    return total.hexdigest()


def talk(steps: Stepped, *, read_at_once: bool) -> None:
    steps.clock.now = START
    for number, text in enumerate(SAID):
        steps.clock.now += 6 * HOUR
        session = f"s{number // 20}"
        capture(steps.store, CONFIG, text, now=steps.clock.now, session_key=session, turn_id=f"t{number}")
        if not read_at_once:
            steps.run()
    for _ in range(3):
        steps.clock.now += HOUR
        steps.run()


@pytest.fixture
def talked(tmp_path: Path) -> Iterator[Stepped]:
    with stepped(tmp_path / "d", None) as steps:
        talk(steps, read_at_once=False)
        yield steps


def lines(steps: Stepped) -> list[str]:
    return [line.text for scene in steps.store.scenes("") for part in scene.sections for line in part.lines]


def test_the_same_conversation_makes_the_same_database(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "two"):
        with stepped(tmp_path / name, None) as steps:
            talk(steps, read_at_once=False)
            digests.append(digest(steps, tmp_path / name))
    assert digests[0] == digests[1]


def test_turn_by_turn_or_all_at_once_the_same_facts_hold(talked: Stepped, tmp_path: Path) -> None:
    with stepped(tmp_path / "at-once", None) as steps:
        talk(steps, read_at_once=True)
        at_once = {(atom.type, atom.content, atom.valid_from) for atom in live(steps)}
    assert {(atom.type, atom.content, atom.valid_from) for atom in live(talked)} == at_once


def live(steps: Stepped) -> list[Atom]:
    return [atom for atom in steps.store.atoms_between("", 0, START + 10_000 * HOUR) if atom.live]


def test_no_scene_tells_what_holds_no_longer_or_twice_the_same(talked: Stepped) -> None:
    told = lines(talked)
    assert len(told) == len(set(told))
    assert "The user lives in Amsterdam, near the Vondelpark." in told
    assert "The user works at the Rijksmuseum now." in told
    for gone in ("Utrecht", "at a museum", "plays the viola in", "drives", "really"):
        assert not [line for line in told if gone in line], gone
        assert not [scene for scene in talked.store.scenes("") if gone in scene.summary], gone
    assert [line for line in told if "licorice" in line] == ["The user loves Dutch licorice."]
    assert any(line.startswith("The user sold their Citroën last week (") for line in told)


def test_headings_are_in_the_language_of_their_lines(talked: Stepped) -> None:
    persona = talked.store.persona("")
    assert persona is not None
    parts = [*persona.sections, *(part for scene in talked.store.scenes("") for part in scene.sections)]
    for part in parts:
        assert {is_chinese(line.text) for line in part.lines} == {is_chinese(part.heading)}
    assert all(scene.summary for scene in talked.store.scenes(""))


def is_chinese(text: str) -> bool:
    return any("\u4e00" <= char <= "\u9fff" for char in text)


def test_the_persona_follows_every_change_and_begins_with_who_the_user_is(talked: Stepped) -> None:
    persona = talked.store.persona("")
    assert persona is not None
    about = next(part for part in persona.sections if part.heading == "About the user")
    assert [line.text for line in about.lines[:4]] == [
        "The user's name is Lena Okoye.",
        "The user's birthday is 9 October.",
        "The user lives in Amsterdam, near the Vondelpark.",
        "The user works at the Rijksmuseum now.",
    ]
    assert persona.sections[0].heading == "Standing requests"
