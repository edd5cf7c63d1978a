"""L2 and L3 without a model: scenes and a persona put together from atoms. No sentence is invented or reworded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from memory_tencentdb_worker.models import Atom, AtomType, Line, Persona, Scene, SceneChange, Section
from memory_tencentdb_worker.offline.slots import slot_of
from memory_tencentdb_worker.text.names import scene_file_name

_HEADINGS = {
    AtomType.PERSONA: ("About the user", "关于用户"),
    AtomType.INSTRUCTION: ("Standing requests", "约定与要求"),
    AtomType.EPISODIC: ("What happened", "发生的事"),
}
_ORDER = (AtomType.PERSONA, AtomType.INSTRUCTION, AtomType.EPISODIC)
SUMMARY_CHARS = 120
SCENE_CHARS, PERSONA_CHARS = 1_500, 2_000
"""The manual's sizes of one scene and of a persona, counted over their lines; they hold with and without a model."""


def assemble_scenes(
    atoms: Sequence[Atom], scenes: Sequence[Scene], max_scenes: int, max_chars: int, now: int
) -> list[SceneChange]:
    """Puts each atom as one line into the scene of its theme; one change a scene, in the order of first mention.

    A line that a new atom makes untrue (the old home, the old job) goes, whichever scene it stands in. A scene that
    would be one too many is not made: its atoms go to the hottest scene. A body over `max_chars` loses its oldest
    happenings first; the atoms themselves stay where they are. Lines a person wrote are kept.
    """
    outdated = _outdated_lines(atoms, scenes)
    present = {scene.name: scene for scene in scenes}
    pending: dict[str, list[Atom]] = {}
    for atom in atoms:
        pending.setdefault(_scene_for(atom, present, pending, max_scenes), []).append(atom)
    for scene in scenes:
        if any(line in outdated for section in scene.sections for line in section.lines):
            pending.setdefault(scene.name, [])
    return [
        _change(name, group, present.get(name), outdated, max_chars=max_chars, now=now)
        for name, group in pending.items()
    ]


def assemble_persona(scenes: Sequence[Scene], current: Persona | None, max_chars: int, now: int, scope: str) -> Persona:
    """The standing requests and the lines about the user of all given scenes, then those of `current`.

    Where two lines tell the same single-value fact, the one of the scenes wins. Never longer than `max_chars`: what
    does not fit is left to the scenes.
    """
    kept: dict[str, list[Line]] = {}
    seen: set[str] = set()
    used = 0
    for heading, line in _persona_lines(scenes, current):
        slot = slot_of(line.text)
        marks = {line.text} | ({f"slot:{slot.name}"} if slot else set())
        size = len(line.text) + 3 + (0 if heading in kept else len(heading) + 5)
        if marks & seen or used + size > max_chars:
            continue
        seen |= marks
        used += size
        kept.setdefault(heading, []).append(line)
    return Persona(
        scope=scope,
        revision=current.revision + 1 if current else 1,
        sections=tuple(Section(heading, tuple(lines)) for heading, lines in kept.items()),
        created_at=now,
        reason="rules",
    )


def cut_end(sections: Sequence[Section], max_chars: int) -> tuple[tuple[Section, ...], int]:
    """The body without the last lines that do not fit; () when not even the first one does."""
    kept: list[Section] = []
    used, cut = 0, 0
    for section in sections:
        lines = []
        for line in section.lines:
            used += len(line.text)
            if used > max_chars:
                cut += 1
            else:
                lines.append(line)
        if lines:
            kept.append(Section(section.heading, tuple(lines)))
    return tuple(kept), cut


def _persona_lines(scenes: Sequence[Scene], current: Persona | None) -> list[tuple[str, Line]]:
    """Headings of a person's own come first, then standing requests, then facts; scenes before the old persona."""
    wanted = [heading for kind in (AtomType.INSTRUCTION, AtomType.PERSONA) for heading in _HEADINGS[kind]]
    fresh = [section for scene in scenes for section in scene.sections if section.heading in wanted]
    known = list(current.sections) if current else []
    own = [section for section in known if section.heading not in wanted]
    rest = sorted(
        fresh + [section for section in known if section.heading in wanted],
        key=lambda section: wanted.index(section.heading),
    )
    lines = [(section.heading, line) for section in own + rest for line in section.lines]
    return sorted(lines, key=lambda one: (_heading_rank(one[0], wanted), not _tells_who(one[1])))


def _heading_rank(heading: str, wanted: Sequence[str]) -> int:
    return wanted.index(heading) if heading in wanted else -1


def _tells_who(line: Line) -> bool:
    """Name, home and work come before the rest."""
    slot = slot_of(line.text)
    return slot is not None and slot.name in ("name", "home", "employer", "role", "birthday")


def _outdated_lines(atoms: Sequence[Atom], scenes: Sequence[Scene]) -> set[Line]:
    """Lines of the scenes whose single-value fact one of the new atoms states anew."""
    newest = {slot.name: slot for slot in map(slot_of, (atom.content for atom in atoms)) if slot}
    outdated = set()
    for scene in scenes:
        for line in (line for section in scene.sections for line in section.lines):
            slot = slot_of(line.text)
            fresh = newest.get(slot.name) if slot else None
            if slot and fresh and (slot.value.startswith(fresh.value) if fresh.ended else slot.value != fresh.value):
                outdated.add(line)
    return outdated


def _scene_for(atom: Atom, present: dict[str, Scene], pending: dict[str, list[Atom]], max_scenes: int) -> str:
    wanted = scene_file_name(atom.scene_name or "Daily life", ())
    if wanted in present or wanted in pending:
        return wanted
    made = [name for name in pending if name not in present]
    if len(present) + len(made) < max_scenes:
        return wanted
    hottest = sorted(present.values(), key=lambda scene: (-scene.heat, scene.name))
    return hottest[0].name if hottest else made[0]


def _change(
    name: str, atoms: Sequence[Atom], scene: Scene | None, outdated: set[Line], *, max_chars: int, now: int
) -> SceneChange:
    old = (
        [Section(part.heading, tuple(line for line in part.lines if line not in outdated)) for part in scene.sections]
        if scene
        else []
    )
    sections = _fit(_with_atoms(old, atoms), max_chars)
    if scene is None:
        made = Scene(
            scope=atoms[0].scope,
            name=name,
            revision=1,
            summary=_summary(sections),
            sections=sections,
            heat=1,
            created_at=now,
            updated_at=now,
        )
        return SceneChange("create", made, reason="rules")
    changed = replace(
        scene,
        revision=scene.revision + 1,
        summary=_summary(sections),
        sections=sections,
        heat=scene.heat + 1,
        updated_at=now,
    )
    return SceneChange("update" if sections else "archive", changed, reason="rules")


def _with_atoms(sections: Sequence[Section], atoms: Sequence[Atom]) -> list[tuple[str, list[Line]]]:
    """The old body and the new atoms. An atom whose text stands there already adds itself to that line's sources.

    Of two new atoms that fill one slot the later one is kept.
    """
    last = {slot.name: atom.id for atom in atoms for slot in [slot_of(atom.content)] if slot}
    bodies: dict[str, list[Line]] = {section.heading: list(section.lines) for section in sections}
    for atom in atoms:
        slot = slot_of(atom.content)
        if slot and last[slot.name] != atom.id:
            continue
        chinese = bool(re.search(r"[\u3400-\u9fff]", atom.content))
        lines = bodies.setdefault(_HEADINGS[atom.type][chinese], [])
        position = next((index for index, line in enumerate(lines) if line.text == atom.content), None)
        if position is None:
            lines.append(Line(atom.content, (atom.id,)))
        else:
            sources = dict.fromkeys((*lines[position].sources, atom.id))
            lines[position] = replace(lines[position], sources=tuple(sources))
    return sorted(bodies.items(), key=lambda body: _rank(body[0]))


def _rank(heading: str) -> int:
    """Known headings in their order; a person's own headings come first and stay as they are."""
    for rank, kind in enumerate(_ORDER):
        if heading in _HEADINGS[kind]:
            return rank
    return -1


def _fit(bodies: Sequence[tuple[str, list[Line]]], max_chars: int) -> tuple[Section, ...]:
    while _size(bodies) > max_chars and sum(len(lines) for _, lines in bodies) > 1:
        next(lines for _, lines in reversed(bodies) if lines).pop(0)
    return tuple(Section(heading, tuple(lines)) for heading, lines in bodies if lines)


def _size(bodies: Iterable[tuple[str, list[Line]]]) -> int:
    return sum(len(heading) + 4 + sum(len(line.text) + 3 for line in lines) for heading, lines in bodies if lines)


def _summary(sections: Sequence[Section]) -> str:
    """The first line, cut when long: a scene made of facts is described by one of them."""
    first = next((line.text for section in sections for line in section.lines), "")
    return first if len(first) <= SUMMARY_CHARS else first[: SUMMARY_CHARS - 1].rstrip() + "…"
