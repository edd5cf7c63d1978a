"""What the owner's hand writes into the store: pauses and wishes; and what a forgetting asks of it."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from pathlib import Path

from memory_tencentdb_worker.models import Layer
from memory_tencentdb_worker.store import pauses, wishes
from memory_tencentdb_worker.store.owner_reads import OwnerReads
from memory_tencentdb_worker.store.pauses import Pause
from memory_tencentdb_worker.store.tombstones import Tombstones
from memory_tencentdb_worker.store.wishes import Wish


class OwnerWrites(OwnerReads):
    """A part of the store."""

    @cached_property
    def stones(self) -> Tombstones:
        """Marks of what was forgotten."""
        return Tombstones(self.data_dir)

    @property
    def data_dir(self) -> Path:
        return self._database.path.parent

    @property
    def space(self) -> int | None:
        """The number of the embedding space in use."""
        return self._space

    def drop_from_memory(self, scope: str, messages: Collection[int], atoms: Collection[int]) -> None:
        """Rows that are gone from the file are gone from what is held in memory too."""
        for space in self._spaces:
            space.index.remove(str(Layer.L0), scope, list(messages))
            space.index.remove(str(Layer.L1), scope, list(atoms))

    def pause(self, scope: str | None, session: str | None, since: int, until: int | None, now: int) -> Pause:
        with self._database.write(durable=True) as connection:
            return pauses.begin(connection, scope, session, since, until, now)

    def resume(self, scope: str | None, session: str | None, now: int) -> list[Pause]:
        with self._database.write(durable=True) as connection:
            return pauses.end(connection, scope, session, now)

    def add_wish(self, wish: Wish, now: int) -> int:
        with self._database.write(durable=True) as connection:
            return wishes.add(connection, wish, now)

    def settle_wish(self, id: int, now: int) -> None:
        with self._database.write(durable=True) as connection:
            wishes.settle(connection, id, now)
