"""New atoms against known ones, without a model: same words confirm, a new value of a single-value slot supersedes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory_tencentdb_worker.models import Atom, AtomChanges, NewAtom, Source
from memory_tencentdb_worker.offline.extract import EXTRACTOR
from memory_tencentdb_worker.offline.slots import Slot, normalised, slot_of


def plan_changes(new: Sequence[NewAtom], known: Sequence[Atom], said: Mapping[str, int]) -> AtomChanges:
    """`known` are live atoms of the same scope, in any order; `said` has for each atom, by id, the `seq` of the newest
    message it rests on. Nothing is ever dropped: what is neither a repetition nor a new value is added. When one batch
    fills a slot twice, the later one wins over the earlier one too. A value older than a known one is added as one
    that held before it."""
    by_text = {normalised(atom.content): atom.id for atom in sorted(known, key=lambda atom: atom.seq)}
    holders: dict[str, list[tuple[str, Slot]]] = {}
    for old in sorted(known, key=lambda atom: atom.seq):
        _hold(holders, old.id, slot_of(old.content))
    add: list[NewAtom] = []
    supersede: dict[str, str] = {}
    outdated: dict[str, str] = {}
    confirm: dict[str, tuple[Source, ...]] = {}
    for atom in new:
        same = by_text.get(normalised(atom.content))
        if same is not None and same not in supersede:
            confirm[same] = confirm.get(same, ()) + atom.sources
            continue
        slot = slot_of(atom.content)
        later = _later_holder(holders, slot, atom, said)
        if later is not None:
            outdated[atom.id] = later
            add.append(atom)
            continue
        for old_id in _replaced(holders, slot):
            supersede[old_id] = atom.id
        add.append(atom)
        _hold(holders, atom.id, slot)
    replaced_here = {atom.id for atom in add} & supersede.keys()
    return AtomChanges(
        add=tuple(atom for atom in add if atom.id not in replaced_here),
        supersede=tuple(
            (old, _final(new_id, supersede)) for old, new_id in supersede.items() if old not in replaced_here
        )
        + tuple(outdated.items()),
        confirm=tuple(confirm.items()),
        scene_name=new[-1].scene_name if new else "",
        extractor=EXTRACTOR,
    )


def _hold(holders: dict[str, list[tuple[str, Slot]]], atom_id: str, slot: Slot | None) -> None:
    if slot is not None:
        holders.setdefault(slot.name, []).append((atom_id, slot))


def _later_holder(
    holders: dict[str, list[tuple[str, Slot]]], slot: Slot | None, atom: NewAtom, said: Mapping[str, int]
) -> str | None:
    """The atom that fills the slot, or has ended this value, since a later message."""
    for id, other in holders.get(slot.name, []) if slot else []:
        if slot and said[id] > said[atom.id] and (not other.ended or slot.value.startswith(other.value)):
            return id
    return None


def _replaced(holders: dict[str, list[tuple[str, Slot]]], slot: Slot | None) -> list[str]:
    """The ids that lose their slot, which are taken out of `holders`. An ended value ends only its own."""
    if slot is None:
        return []
    held = holders.get(slot.name, [])
    gone = [(old_id, old) for old_id, old in held if not slot.ended or old.value.startswith(slot.value)]
    holders[slot.name] = [entry for entry in held if entry not in gone]
    return [old_id for old_id, _ in gone]


def _final(atom_id: str, supersede: dict[str, str]) -> str:
    while atom_id in supersede:
        atom_id = supersede[atom_id]
    return atom_id
