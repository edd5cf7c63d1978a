"""Field traps that need no more than a look."""

from __future__ import annotations

import apsw

RESET_RACE_FIXED_IN = (3, 51, 3)


def test_the_sqlite_in_use_has_no_wal_reset_race() -> None:
    """Trap B91: versions before lose a committed transaction, rarely, when a WAL begins anew."""
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= RESET_RACE_FIXED_IN
