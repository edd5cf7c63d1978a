"""Scenes and the persona as they would have read at an instant: what had been written by then, without lines that did
not hold, and with one line for each fact that no line tells. Nobody writes them down; a question asks for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_tencentdb_worker.models import Atom, AtomType, Line, Persona, Scene, Section
from memory_tencentdb_worker.offline.assemble import PERSONA_CHARS, SCENE_CHARS, assemble_persona, assemble_scenes

_ANY_NUMBER = 1_000_000_000
_LASTING = (AtomType.PERSONA, AtomType.INSTRUCTION)


@dataclass(frozen=True)
class Past:
    persona: Persona | None
    scenes: tuple[Scene, ...]


def assemble_past(
    known: Sequence[Atom],
    persona: Persona | None,
    scenes: Sequence[Scene],
    *,
    messages: Collection[str],
    max_scenes: int,
    as_of: int,
) -> Past:
    """`known` are the facts of the user's own that held at `as_of`; `persona` and `scenes` what had been written by
    then; `messages` the ids among their sources that are messages (a person's edits rest on them).

    The persona holds exactly the lasting facts, as far as its size allows.
    """
    if not known and persona is None and not scenes:
        return Past(None, ())
    held = {atom.id for atom in known} | set(messages)
    standing = [replace(scene, sections=_holding(scene.sections, held)) for scene in scenes]
    whole = {now.name for before, now in zip(scenes, standing, strict=True) if before == now}
    return Past(
        persona=_persona(known, persona, held | whole, as_of),
        scenes=tuple(_scenes(known, standing, whole, max_scenes, as_of)),
    )


def named_sources(persona: Persona | None, scenes: Sequence[Scene]) -> list[str]:
    sections = [*(persona.sections if persona else ()), *(part for scene in scenes for part in scene.sections)]
    return sorted({source for section in sections for line in section.lines for source in line.sources})


def _persona(known: Sequence[Atom], persona: Persona | None, held: Collection[str], as_of: int) -> Persona | None:
    sections = _holding(persona.sections, held) if persona else ()
    lasting = [atom for atom in known if atom.type in _LASTING]
    untold = _untold(lasting, sections)
    if not sections and not untold:
        return None
    current = replace(persona, sections=sections) if persona else None
    added = [change.scene for change in assemble_scenes(untold, (), _ANY_NUMBER, _ANY_NUMBER, as_of)]
    scope = persona.scope if persona else untold[0].scope
    return assemble_persona(added, current, PERSONA_CHARS, as_of, scope)


def _scenes(
    known: Sequence[Atom], standing: Sequence[Scene], whole: Collection[str], max_scenes: int, as_of: int
) -> list[Scene]:
    """A scene that lost a line is described anew: its description may tell what did not hold."""
    scenes: Mapping[str, Scene] = {
        scene.name: scene if scene.name in whole else replace(scene, summary=_first_text(scene))
        for scene in standing
        if scene.sections
    }
    untold = _untold(known, [part for scene in scenes.values() for part in scene.sections])
    made = assemble_scenes(untold, list(scenes.values()), max_scenes, SCENE_CHARS, as_of)
    placed = {
        change.scene.name: replace(change.scene, summary=scenes[change.scene.name].summary)
        if change.scene.name in scenes
        else change.scene
        for change in made
        if change.op != "archive"
    }
    gone = {change.scene.name for change in made if change.op == "archive"}
    return [scene for name, scene in {**scenes, **placed}.items() if name not in gone]


def _holding(sections: Sequence[Section], held: Collection[str]) -> tuple[Section, ...]:
    """Only lines of which everything holds: one that joins two facts may not be told when one of them does not."""
    kept = (
        Section(part.heading, tuple(line for line in part.lines if all(source in held for source in line.sources)))
        for part in sections
    )
    return tuple(section for section in kept if section.lines)


def _untold(atoms: Sequence[Atom], sections: Sequence[Section]) -> list[Atom]:
    lines: list[Line] = [line for section in sections for line in section.lines]
    told = {source for line in lines for source in line.sources}
    texts = {line.text for line in lines}
    return [atom for atom in atoms if atom.id not in told and atom.content not in texts]


def _first_text(scene: Scene) -> str:
    return next((line.text for section in scene.sections for line in section.lines), "")
