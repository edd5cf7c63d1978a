"""Which scenes a model is shown as a whole: those that new atoms may belong to. Of the others it sees name and summary,
because fifteen full scenes with every call cost more than all the rest of it.

What a model has not seen it can only add to: `bodies.keeping` puts back the lines that an answer could not name, and an
archiving of such a scene is not carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memory_tencentdb_worker.layers.scene_changes import Answer, Workbench
from memory_tencentdb_worker.models import Atom, Scene
from memory_tencentdb_worker.text.names import scene_file_name
from memory_tencentdb_worker.text.segment import query_terms

WHOLE_SCENES = 6


def shown_scenes(scenes: Sequence[Scene], atoms: Sequence[Atom]) -> list[Scene]:
    """All scenes in their order; at most six with their lines, those that share most with the atoms."""
    whole = _closest(scenes, atoms)
    return [scene if scene.name in whole else replace(scene, sections=()) for scene in scenes]


def without_blind_archiving(answer: Answer, bench: Workbench, shown: Sequence[Scene]) -> Answer:
    unseen = {scene.name for scene in shown if not scene.sections}
    kept = []
    for operation in answer.operations:
        scene = bench.find(operation.get("scene"))
        archives = str(operation.get("op")).strip().lower() == "archive"
        if archives and scene is not None and scene.sections and scene.name in unseen:
            bench.refused += 1
        else:
            kept.append(operation)
    return replace(answer, operations=tuple(kept))


def _closest(scenes: Sequence[Scene], atoms: Sequence[Atom]) -> set[str]:
    if len(scenes) <= WHOLE_SCENES:
        return {scene.name for scene in scenes}
    named = {scene_file_name(atom.scene_name, ()) for atom in atoms if atom.scene_name}
    terms = {term for atom in atoms for term in query_terms(atom.content)}
    ranked = sorted(
        scenes, key=lambda scene: (scene.name not in named, -len(terms & _terms(scene)), -scene.heat, scene.name)
    )
    return {scene.name for scene in ranked[:WHOLE_SCENES]}


def _terms(scene: Scene) -> set[str]:
    texts = (line.text for section in scene.sections for line in section.lines)
    return {term for text in (scene.name, scene.summary, *texts) for term in query_terms(text)}
