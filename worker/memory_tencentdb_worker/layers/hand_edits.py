"""What a person wrote into a scene or the persona: it becomes a revision, and what it says instead of a known fact
takes that fact's place everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from memory_tencentdb_worker.layers.bodies import without_lines_of
from memory_tencentdb_worker.models import (
    Atom,
    AtomChanges,
    Line,
    NewAtom,
    NewMessage,
    NewTurn,
    Origin,
    Persona,
    Role,
    Scene,
    SceneChange,
    Section,
    Source,
)
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.projections import Edit
from memory_tencentdb_worker.text.ids import atom_id, message_id, text_hash
from memory_tencentdb_worker.text.ids import turn_id as new_turn_id

SESSION_KEY = "owner-edit"
EXTRACTOR = "owner-edit"


@dataclass(frozen=True)
class _Facts:
    """The facts that an edit has put in the place of others."""

    changes: AtomChanges
    instead_of: Mapping[str, Line]  # by the id of a replaced atom: the line that tells the new fact


def apply_edits(edits: Sequence[Edit], store: Store, now: int) -> None:
    """What was rewritten is told from what stood in the store when the edits were read: one of them may change what
    another one's file has shown."""
    for edit, before in [(edit, _sections_before(edit, store)) for edit in edits]:
        _apply_edit(edit, before, store, now)


def edit_atom(atom: Atom, content: str, store: Store, now: int, *, action: str = "edit") -> str:
    """The owner says it otherwise: the atom is superseded by one that rests on an owner's turn, and lines that rested
    on it alone say the new text. Returns the new atom's id."""
    said = NewMessage(Role.USER, content, now, Origin.OWNER_EDIT)
    turn_id = f"owner-{action}:{new_turn_id()}"
    evidence = NewTurn(atom.scope, turn_id, SESSION_KEY, "", (said,), now, f"owner-{action}")
    new = _atom(content, [atom], atom.scope, evidence)
    supersede = ((atom.id, new.id),) if atom.live else ()
    changes = AtomChanges(add=(new,), supersede=supersede, extractor=EXTRACTOR)
    facts = _Facts(changes, {atom.id: Line(content, (new.id,))})
    scenes = []
    for scene in store.scenes(atom.scope):
        sections = _told_anew(scene.sections, facts)
        if sections is not None:
            summary = scene.summary.replace(atom.content, content)
            whole = replace(scene, sections=sections, summary=summary, updated_at=now)
            scenes.append(SceneChange("edit", whole, reason=f"fact {atom.id} was edited"))
    persona = store.persona(atom.scope)
    following = None if persona is None else _told_anew(persona.sections, facts)
    if persona is not None and following is not None:
        persona = replace(persona, sections=following, created_at=now, reason="edit")
    else:
        persona = None
    store.edit_documents(atom.scope, scenes, persona, evidence, now, changes, action)
    return new.id


def _sections_before(edit: Edit, store: Store) -> tuple[Section, ...]:
    known = store.scene(edit.scope, edit.name) if edit.kind == "scene" else store.persona(edit.scope)
    return known.sections if known else ()


def _apply_edit(edit: Edit, before: Sequence[Section], store: Store, now: int) -> None:
    """One transaction: the new text rests on an owner's turn that holds what is new in it. Where a line was rewritten,
    the facts it rested on are superseded by what stands there now, in the other documents too."""
    scene = store.scene(edit.scope, edit.name) if edit.kind == "scene" else None
    persona = store.persona(edit.scope)
    evidence = _evidence(edit, before, now)
    facts = _Facts(AtomChanges(), {}) if edit.removed else _replaced_facts(edit, before, evidence, store)
    written = _with_facts(_without_replaced(edit.sections, store), facts)
    if edit.kind == "scene":
        changes = [_scene_change(edit, written, scene, now)]
        following = None if persona is None else _told_anew(persona.sections, facts)
        revision = None if persona is None or following is None else replace(persona, sections=following)
    else:
        changes = []
        revision = Persona(edit.scope, 0, () if edit.removed else written, now, "edit")
    if revision is not None:
        revision = replace(revision, created_at=now, reason="edit")
    changes += _other_scenes(edit, facts, store, now)
    store.edit_documents(edit.scope, changes, revision, evidence, now, facts.changes)


def _replaced_facts(edit: Edit, before: Sequence[Section], evidence: NewTurn, store: Store) -> _Facts:
    pairs = rewritten_lines(before, edit.sections)
    named = sorted({source for old, _ in pairs for source in old.sources})
    known = {atom.id: atom for atom in store.atoms_by_id(named) if atom.live and atom.scope == edit.scope}
    add: list[NewAtom] = []
    instead_of: dict[str, Line] = {}
    for old, new in pairs:
        atoms = [known[source] for source in old.sources if source in known and source not in instead_of]
        if not atoms:
            continue
        atom = _atom(new.text, atoms, edit.scope, evidence)
        add.append(atom)
        instead_of.update(dict.fromkeys((one.id for one in atoms), Line(new.text, (atom.id,))))
    supersede = tuple((old_id, line.sources[0]) for old_id, line in instead_of.items())
    return _Facts(AtomChanges(add=tuple(add), supersede=supersede, extractor=EXTRACTOR), instead_of)


def rewritten_lines(before: Sequence[Section], after: Sequence[Section]) -> list[tuple[Line, Line]]:
    """Lines that gave way to another one at the same place of their section. A line that was only moved or taken away,
    and one that was added, is none."""
    old_texts = {line.text for line in _lines(before)}
    new_texts = {line.text for line in _lines(after)}
    bodies = {section.heading: section.lines for section in after}
    pairs: list[tuple[Line, Line]] = []
    for section in before:
        new = bodies.get(section.heading, ())
        matcher = SequenceMatcher(None, [line.text for line in section.lines], [line.text for line in new], False)
        for tag, begin, end, new_begin, new_end in matcher.get_opcodes():
            if tag == "replace":
                gone = [line for line in section.lines[begin:end] if line.text not in new_texts]
                come = [line for line in new[new_begin:new_end] if line.text not in old_texts]
                pairs += zip(gone, come, strict=False)
    return pairs


def _atom(text: str, instead_of: Sequence[Atom], scope: str, evidence: NewTurn) -> NewAtom:
    """It keeps kind, weight and theme of what it replaces."""
    model = instead_of[0]
    said = evidence.messages[0]
    source = Source(message_id(scope, evidence.session_key, evidence.turn_id, 0), text_hash(said.text))
    return NewAtom(
        id=atom_id(scope, model.type, text, [source.message_id]),
        type=model.type,
        content=text,
        priority=model.priority,
        scene_name=model.scene_name,
        origin=Origin.OWNER_EDIT,
        sources=(source,),
        session_key=evidence.session_key,
        session_id=evidence.session_id,
    )


def _without_replaced(sections: Sequence[Section], store: Store) -> tuple[Section, ...]:
    """Without lines that the person left as they were and that rest on nothing but facts replaced meanwhile."""
    atoms = store.atoms_by_id(sorted({source for line in _lines(sections) for source in line.sources}))
    return without_lines_of(sections, {atom.id for atom in atoms if not atom.live})


def _with_facts(sections: Sequence[Section], facts: _Facts) -> tuple[Section, ...]:
    """The lines that tell a new fact rest on it."""
    told = {line.text: line.sources for line in facts.instead_of.values()}
    return tuple(
        replace(
            section,
            lines=tuple(
                line if line.sources else replace(line, sources=told.get(line.text, ())) for line in section.lines
            ),
        )
        for section in sections
    )


def _told_anew(sections: Sequence[Section], facts: _Facts) -> tuple[Section, ...] | None:
    """The body with new lines for those that rest on replaced facts alone; None when there is none."""

    def anew(line: Line) -> Line:
        if not line.sources or any(source not in facts.instead_of for source in line.sources):
            return line
        return facts.instead_of[line.sources[-1]]

    told = tuple(replace(part, lines=tuple(dict.fromkeys(map(anew, part.lines)))) for part in sections)
    return None if told == tuple(sections) else told


def _other_scenes(edit: Edit, facts: _Facts, store: Store, now: int) -> list[SceneChange]:
    changes = []
    for scene in store.scenes(edit.scope) if facts.instead_of else ():
        sections = None if edit.kind == "scene" and scene.name == edit.name else _told_anew(scene.sections, facts)
        if sections is not None:
            changed = replace(scene, sections=sections, updated_at=now)
            changes.append(SceneChange("edit", changed, reason=f"{edit.kind} {edit.name} was edited by hand"))
    return changes


def _scene_change(edit: Edit, sections: tuple[Section, ...], known: Scene | None, now: int) -> SceneChange:
    if known is None:
        known = Scene(edit.scope, edit.name, 0, edit.summary, (), heat=1, created_at=now, updated_at=now)
    if edit.removed:
        return SceneChange("archive", replace(known, status="archived", updated_at=now), reason="the file was deleted")
    scene = replace(
        known,
        sections=sections,
        summary=edit.summary or known.summary,
        status="active",
        merged_into=None,
        updated_at=now,
    )
    return SceneChange("edit", scene, reason="edited by hand")


def _evidence(edit: Edit, before: Sequence[Section], now: int) -> NewTurn:
    """What the person added; for an edit that only took away, what they did."""
    old = {line.text for line in _lines(before)}
    added = [line.text for line in _lines(edit.sections) if line.text not in old]
    done = "deleted" if edit.removed else "edited"
    text = "\n".join(added) or f"{done} {edit.kind} {edit.name}"
    return NewTurn(
        scope=edit.scope,
        turn_id=f"owner-edit:{new_turn_id()}",
        session_key=SESSION_KEY,
        session_id="",
        messages=(NewMessage(Role.USER, text, now, Origin.OWNER_EDIT),),
        captured_at=now,
        source="owner-edit",
    )


def _lines(sections: Iterable[Section]) -> list[Line]:
    return [line for section in sections for line in section.lines]
