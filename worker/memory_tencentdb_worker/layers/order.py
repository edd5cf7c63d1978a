"""Which of two statements came later. Batches are not always read in the order in which they were said: one that was
parked comes back, and sessions take turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from memory_tencentdb_worker.models import Source
from memory_tencentdb_worker.store.base import Store


class _Stated(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def sources(self) -> Sequence[Source]: ...


def last_said(atoms: Iterable[_Stated], store: Store) -> Mapping[str, int]:
    """For each atom the `seq` of the newest message it rests on."""
    stated = {atom.id: [source.message_id for source in atom.sources] for atom in atoms}
    wanted = sorted({id for ids in stated.values() for id in ids})
    seqs = {message.id: message.seq for message in store.messages_by_id(wanted)}
    return {atom_id: max((seqs[id] for id in ids if id in seqs), default=0) for atom_id, ids in stated.items()}
