"""What the owner asks about single turns and days; a part of the store on SQLite."""

from __future__ import annotations

from memory_tencentdb_worker.store import turn_record
from memory_tencentdb_worker.store.connection import select
from memory_tencentdb_worker.store.reader import SqliteReader
from memory_tencentdb_worker.store.turn_record import TurnRecord

DAY_MS = 86_400_000


class OwnerReads(SqliteReader):
    """Never waits for a writer."""

    def turn_records(self, scope: str | None, turn_id: str) -> list[TurnRecord]:
        with self._database.read() as connection:
            return turn_record.turn_records(connection, scope, turn_id)

    def recorded_days(self, scope: str) -> list[int]:
        with self._database.read() as connection:
            rows = select(
                connection,
                f"select distinct recorded_at / {DAY_MS} from messages where scope = :scope union"
                f" select distinct recorded_from / {DAY_MS} from atoms where scope = :scope order by 1",
                {"scope": scope},
            )
            return [int(row[0]) * DAY_MS for row in rows]
