"""Known atoms that may concern the same fact as a new one: what a comparison is asked for, and paid for.

Nearly every memory speaks of the user, so a search finds something for each. As long as there are few atoms all that is
found is compared; later only what has a telling word in common, fills the same place in a person's life in other words,
or is close by meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory_tencentdb_worker.layers.attribution import shared
from memory_tencentdb_worker.models import Atom, AtomHit, Filter
from memory_tencentdb_worker.offline.slots import slot_of, slot_query
from memory_tencentdb_worker.store.base import Store

CLOSE = 0.3
"""Of a vector's score; unrelated texts stay below it (RESULTS.md, "Dense")."""


def related_atoms(content: str, vector: Sequence[float] | None, scope: str, store: Store, most: int) -> dict[str, Atom]:
    """By id; the best `most` of each way to find them."""
    filter = Filter(scope)
    found = _narrowed(store.search_atoms(content, filter, most), most, content)
    found += _same_place(content, filter, store, most)
    if vector is not None:
        near = store.nearest_atoms(vector, filter, most)
        found += [hit for hit in near if len(near) < most or hit.score >= CLOSE]
    return {hit.atom.id: hit.atom for hit in found}


def _narrowed(hits: Sequence[AtomHit], most: int, content: str) -> list[AtomHit]:
    return [hit for hit in hits if len(hits) < most or shared(content, hit.atom.content) > 0]


def _same_place(content: str, filter: Filter, store: Store, most: int) -> list[AtomHit]:
    """`lives in` and `moved to` are one place, of which a person has one value at a time."""
    slot = slot_of(content)
    if slot is None:
        return []
    hits = store.search_atoms(slot_query(content), filter, most)
    return [hit for hit in hits if (other := slot_of(hit.atom.content)) is not None and other.name == slot.name]
