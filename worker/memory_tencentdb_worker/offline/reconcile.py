"""New atoms against known ones, without a model: same words confirm, a new value of a single-value slot supersedes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memory_tencentdb_worker.models import BY_RULES, Atom, AtomChanges, AtomType, NewAtom, Source
from memory_tencentdb_worker.offline.slots import Slot, ends, same_statement, slot_of

Spoken = tuple[int, int]
"""When something was said, and the `seq` of its message, which decides between equal times."""


def plan_changes(new: Sequence[NewAtom], known: Sequence[Atom], said: Mapping[str, Spoken]) -> AtomChanges:
    """`known` are live atoms of the same scope, in any order; `said` has for each atom, by id, when the newest message
    it rests on was said. Nothing is ever dropped: what is neither a repetition nor a new value is added. When one batch
    fills a slot twice, the later one supersedes the earlier one too. A value older than a known one is added as one
    that held before it."""
    standing = _Standing(said)
    for old in sorted(known, key=lambda atom: atom.seq):
        standing.put(old)
    add: list[NewAtom] = []
    supersede: dict[str, str] = {}
    confirm: dict[str, tuple[Source, ...]] = {}
    for atom in new:
        one = _held(atom)
        same = standing.same(one)
        if same is not None:
            confirm[same] = confirm.get(same, ()) + atom.sources
            continue
        add.append(atom)
        later = standing.later(one)
        if later is not None:
            supersede[atom.id] = later
            continue
        supersede.update(dict.fromkeys(standing.replace(one), atom.id))
        standing.put(atom)
    return AtomChanges(
        add=tuple(add),
        supersede=tuple(supersede.items()),
        confirm=tuple(confirm.items()),
        scene_name=new[-1].scene_name if new else "",
        extractor=BY_RULES,
    )


@dataclass(frozen=True)
class _Held:
    id: str
    text: str
    slot: Slot | None
    is_event: bool


@dataclass
class _Standing:
    """What holds so far, as atoms are compared one by one in the order in which they were said."""

    said: Mapping[str, Spoken]
    held: list[_Held] = field(default_factory=list)

    def put(self, atom: Atom | NewAtom) -> None:
        self.held.append(_held(atom))

    def same(self, new: _Held) -> str | None:
        """Who says the same already: in the same words, or of the same value of a slot with more words."""
        for old in self.held:
            if old.text == new.text or (_same_value(old, new) and not old.is_event and old.text.startswith(new.text)):
                return old.id
        return None

    def later(self, new: _Held) -> str | None:
        """The atom that fills the slot, or has ended this value, since a later message."""
        after = (old for old in self.held if self.said[old.id] > self.said[new.id])
        return next((old.id for old in after if _replaces(old, new)), None)

    def replace(self, new: _Held) -> list[str]:
        """The ids that hold no longer, which are taken out."""
        gone = [old for old in self.held if _replaces(new, old)]
        self.held = [old for old in self.held if old not in gone]
        return [old.id for old in gone]


def _held(atom: Atom | NewAtom) -> _Held:
    text = same_statement(atom.content)
    return _Held(atom.id, text, slot_of(atom.content), atom.type is AtomType.EPISODIC)


def _same_value(one: _Held, other: _Held) -> bool:
    return one.slot is not None and one.slot == other.slot and not one.slot.ended


def _replaces(later: _Held, earlier: _Held) -> bool:
    """A value that ends takes only itself along. How one came to a value stays true as long as the value does."""
    if ends(later.text, earlier.text):
        return True
    if later.slot is None or earlier.slot is None or later.slot.name != earlier.slot.name:
        return False
    if later.slot.ended:
        return earlier.slot.value.startswith(later.slot.value)
    return not (_same_value(earlier, later) and (earlier.is_event or later.is_event))
