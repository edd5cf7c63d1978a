"""What may stand in the part of a prompt that is always there: lines that rest on the user's own word (trap B104).

A page, a tool or the assistant may be remembered as having said something, found by recall with its date; it never
becomes a part of the persona, of what the persona is written from, or of the line that describes a scene.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from memory_tencentdb_worker.layers.attribution import SHARED_TERMS, shared
from memory_tencentdb_worker.layers.bodies import sources_of, without_lines_of
from memory_tencentdb_worker.models import OF_OTHERS, Line, Scene, Section
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.safe import one_line

SUMMARY_LIMIT = 300


def words_of_others(sections: Iterable[Section], store: Store) -> frozenset[str]:
    """Which sources of these sections are atoms that do not go back to the user, an owner's edit or the host's own
    memory."""
    return frozenset(atom.id for atom in store.atoms_by_id(sorted(sources_of(sections))) if atom.origin in OF_OTHERS)


def own_scene(scene: Scene, others: Collection[str]) -> Scene:
    """The scene without lines that rest on nothing but the words of others."""
    return replace(scene, sections=without_lines_of(scene.sections, others), summary=own_summary(scene, others))


def own_summary(scene: Scene, others: Collection[str]) -> str:
    """The scene's summary, or the first line of the user's own where it repeats what only others said."""
    lines = [line for section in scene.sections for line in section.lines]
    own = [line for line in lines if _is_own(line, others)]
    foreign = [line for line in lines if not _is_own(line, others)]
    if foreign and not own:
        return ""
    if any(_tells(scene.summary, line) for line in foreign) and not any(_tells(scene.summary, line) for line in own):
        return one_line(own[0].text)[:SUMMARY_LIMIT]
    return scene.summary


def _is_own(line: Line, others: Collection[str]) -> bool:
    return not line.sources or any(source not in others for source in line.sources)


def _tells(summary: str, line: Line) -> bool:
    return shared(line.text, summary) >= SHARED_TERMS
