"""A model reads what only rules have read: its atoms take the places of the rule-made ones, in the past too.

A rule-made atom goes when the model has said something of the same message, and never because a model was silent: a
small one leaves much out, and no reading leaves fewer facts than before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memory_tencentdb_worker.models import Atom, AtomChanges, L1Batch, NewAtom, Source
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.ids import atom_id
from memory_tencentdb_worker.text.segment import query_terms

SAME_FACT_OVERLAP = 0.5
_SUBJECT = frozenset({"user", "users", "用户"})
"""In every memory, so it tells nothing."""


@dataclass(frozen=True)
class _Said:
    """What the model has said in this batch, as a new atom or once more as a known one."""

    id: str
    terms: frozenset[str]
    messages: frozenset[str]

    def overlap(self, other: frozenset[str]) -> float:
        return len(self.terms & other) / max(1, min(len(self.terms), len(other)))


def rule_made(batch: L1Batch, store: Store) -> list[Atom]:
    """The atoms that this batch's reading may replace; none where a model reads for the first time."""
    return store.rule_made_atoms(batch) if batch.reread or batch.parked_id is not None else []


def told_apart(new: Sequence[NewAtom], made: Sequence[Atom], scope: str) -> list[NewAtom]:
    """A model's atom in the very words of a rule-made one gets an id of its own, so that it can supersede it."""
    taken = {atom.id for atom in made}
    return [
        atom
        if atom.id not in taken
        else replace(
            atom,
            id=atom_id(scope, atom.type, atom.content, [*(source.message_id for source in atom.sources), atom.id]),
        )
        for atom in new
    ]


def replace_rule_made(changes: AtomChanges, made: Sequence[Atom], store: Store) -> AtomChanges:
    """`made` are the rule-made atoms of the batch. A live one is superseded by what the model said instead. What took
    the place of one that holds no longer (a later statement, a person's edit) takes that of the model's atom too."""
    said = _said(changes, store)
    live = {atom.id: new.id for atom in made if atom.live for new in [_instead_of(atom, said)] if new is not None}
    successors = {**dict(changes.supersede), **live}
    standing = {new.id for new in changes.add} - set(live.values()) - successors.keys()
    new_ones = [one for one in said if one.id in standing]
    close: dict[str, None] = dict.fromkeys(changes.close)
    for atom in (atom for atom in made if not atom.live):
        again = _said_again(atom, new_ones)
        if again is None or again.id in successors or again.id in close:
            continue
        later = _last_successor(atom, successors, store)
        if later is None:
            close[again.id] = None
        elif later != again.id:
            successors[again.id] = later
    return replace(changes, supersede=tuple(successors.items()), close=tuple(close))


def _said(changes: AtomChanges, store: Store) -> list[_Said]:
    added = [_one(atom.id, atom.content, atom.sources) for atom in changes.add]
    known = {atom.id: atom for atom in store.atoms_by_id([id for id, _ in changes.confirm])}
    again = [_one(id, known[id].content, sources) for id, sources in changes.confirm if id in known]
    return [*added, *again]


def _one(id: str, content: str, sources: Sequence[Source]) -> _Said:
    return _Said(id, _terms(content), frozenset(source.message_id for source in sources))


def _terms(content: str) -> frozenset[str]:
    return frozenset(query_terms(content)) - _SUBJECT


def _instead_of(made: Atom, said: Sequence[_Said]) -> _Said | None:
    """Of what was said of its messages, what shares most words with it; without a shared word, only a sole one."""
    terms = _terms(made.content)
    candidates = [one for one in _of_its_messages(made, said) if one.id != made.id]
    best = max(candidates, key=lambda one: one.overlap(terms), default=None)
    return best if best is not None and (best.overlap(terms) > 0 or len(candidates) == 1) else None


def _said_again(gone: Atom, new: Sequence[_Said]) -> _Said | None:
    """The same statement, not merely something of the same message: it must not be ended by mistake."""
    terms = _terms(gone.content)
    best = max(_of_its_messages(gone, new), key=lambda one: one.overlap(terms), default=None)
    return best if best is not None and best.overlap(terms) >= SAME_FACT_OVERLAP else None


def _of_its_messages(made: Atom, said: Sequence[_Said]) -> list[_Said]:
    messages = {source.message_id for source in made.sources}
    return [one for one in said if one.messages & messages]


def _last_successor(gone: Atom, successors: Mapping[str, str], store: Store) -> str | None:
    """The end of the chain of supersessions, those of this reading included; None for an atom that was closed."""
    atom, seen = gone, {gone.id}
    while True:
        following = atom.superseded_by if not atom.live else successors.get(atom.id)
        if following is None:
            return atom.id if atom.live else None
        if following in seen:
            return None
        seen.add(following)
        known = store.atoms_by_id([following])
        if not known:  # a new one of this reading
            return following
        atom = known[0]
