"""Reads what was known at an instant: for recall and search with `as_of`."""

from __future__ import annotations

from memory_tencentdb_worker.models import OF_OTHERS
from memory_tencentdb_worker.offline.past import Past, assemble_past, named_sources
from memory_tencentdb_worker.store.base import Store

MOST_FACTS = 5_000
"""Facts that scenes and persona of the past are put together from: the last ones said."""


def read_past(store: Store, scope: str, as_of: int, max_scenes: int) -> Past:
    """Scenes and persona as of then. What only others said is no part of them, as at any other time."""
    persona, scenes = store.documents_at(scope, as_of)
    known = [atom for atom in store.atoms_known_at(scope, as_of, MOST_FACTS) if atom.origin not in OF_OTHERS]
    said = store.messages_by_id(named_sources(persona, scenes))
    messages = {message.id for message in said if message.scope == scope}
    return assemble_past(known, persona, scenes, messages=messages, max_scenes=max_scenes, as_of=as_of)
