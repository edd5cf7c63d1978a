"""Which of two statements came later. Batches are not always read in the order in which they were said: one that was
parked comes back, sessions take turns, and old conversations are taken in after new ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from memory_tencentdb_worker.models import Message, Source
from memory_tencentdb_worker.offline.reconcile import Spoken
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.times import LATEST_MS


class _Stated(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def sources(self) -> Sequence[Source]: ...


def last_said(atoms: Iterable[_Stated], store: Store) -> Mapping[str, Spoken]:
    """For each atom when the newest message it rests on was said."""
    stated = {atom.id: [source.message_id for source in atom.sources] for atom in atoms}
    wanted = sorted({id for ids in stated.values() for id in ids})
    spoken = _spoken(store.messages_by_id(wanted))
    return {atom_id: max((spoken[id] for id in ids if id in spoken), default=(0, 0)) for atom_id, ids in stated.items()}


def _spoken(messages: Sequence[Message]) -> dict[str, Spoken]:
    """`messages` in `seq` order. A time after the message was recorded (a clock that ran ahead, or was set back since)
    says nothing: the message then counts as said before the ones after it."""
    spoken: dict[str, Spoken] = {}
    recorded = following = LATEST_MS
    for message in reversed(messages):
        recorded = min(recorded, message.recorded_at)
        said = message.sent_at if message.sent_at <= recorded else min(recorded, following)
        following = min(following, said)
        spoken[message.id] = (said, message.seq)
    return spoken
