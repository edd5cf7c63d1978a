"""Who moved to a place lives there: an event alone would end the former home and leave no present one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from memory_tencentdb_worker.models import AtomType, NewAtom
from memory_tencentdb_worker.offline.sentences import is_chinese
from memory_tencentdb_worker.offline.slots import new_home
from memory_tencentdb_worker.text.ids import atom_id

PRIORITY = 80
LONG_AGO_MS = 2 * 365 * 24 * 3_600_000
"""A move of so long ago is told as history, and says nothing of today."""


def with_homes(atoms: Sequence[NewAtom], scope: str, said_at: int) -> list[NewAtom]:
    """Before each event by which the user's home changed, the home itself. `said_at`: of the newest message, in ms."""
    return [one for atom in atoms for one in (*_home(atom, scope, said_at), atom)]


def _home(event: NewAtom, scope: str, said_at: int) -> Iterator[NewAtom]:
    place = new_home(event.content) if event.type is AtomType.EPISODIC else ""
    if not place or (event.activity_start is not None and said_at - event.activity_start > LONG_AGO_MS):
        return
    content = f"用户现在住在{place}。" if is_chinese(event.content) else f"The user lives in {place} now."
    yield replace(
        event,
        id=atom_id(scope, AtomType.PERSONA, content, [source.message_id for source in event.sources]),
        type=AtomType.PERSONA,
        content=content,
        priority=PRIORITY,
        activity_start=None,
        activity_end=None,
    )
