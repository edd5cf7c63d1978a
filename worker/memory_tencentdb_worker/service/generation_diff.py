"""Two generations of facts compared: what is the same, what was put in other words, what only one of them holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory_tencentdb_worker.models import Atom
from memory_tencentdb_worker.text.segment import fold


@dataclass(frozen=True)
class FactDiff:
    same: int
    changed: tuple[tuple[Atom, Atom], ...]  # (old, new): they rest on a common message and differ
    only_old: tuple[Atom, ...]
    only_new: tuple[Atom, ...]


def compare_facts(old: Sequence[Atom], new: Sequence[Atom]) -> FactDiff:
    """The same: equal text, type and user. Changed: of the others, those that share most messages, of the same type
    before another."""
    by_key = {_key(atom): atom for atom in new}
    same = {atom.id: by_key[_key(atom)].id for atom in old if _key(atom) in by_key}
    taken = set(same.values())
    left = [atom for atom in new if atom.id not in taken]
    changed: list[tuple[Atom, Atom]] = []
    only_old: list[Atom] = []
    for atom in old:
        if atom.id in same:
            continue
        other = max(left, key=lambda one: _nearness(atom, one), default=None)
        if other is None or not _shared(atom, other):
            only_old.append(atom)
        else:
            changed.append((atom, other))
            left.remove(other)
    return FactDiff(len(same), tuple(changed), tuple(only_old), tuple(left))


def _key(atom: Atom) -> tuple[str, str, str]:
    return atom.scope, atom.type, " ".join(fold(atom.content).split())


def _nearness(old: Atom, new: Atom) -> tuple[int, bool]:
    return _shared(old, new), old.type == new.type


def _shared(old: Atom, new: Atom) -> int:
    if old.scope != new.scope:
        return 0
    return len({one.message_id for one in old.sources} & {one.message_id for one in new.sources})
