"""Every reason that a state can have: its code, the state it means, and what a person can do about it.

`docs/troubleshooting.md` explains each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

SEVERITY = ("ok", "lagging", "degraded", "paused", "broken")

LOGS = "see `memory-tencentdb logs`"


@dataclass(frozen=True)
class Reason:
    """Why the state is not `ok` (or, with state `ok`, what is worth knowing). `since` is an instant, if known."""

    code: str
    message: str
    since: int | None
    action: str
    state: str


@dataclass(frozen=True)
class Kind:
    """`action` stands where whoever notices the trouble knows nothing better."""

    state: str
    action: str


KINDS: dict[str, Kind] = {
    # the store
    "disk_full": Kind("broken", "free space on this disk; nothing else is needed"),
    "store_corrupt": Kind("broken", "put a backup in its place"),
    "store_moved": Kind("broken", "put the data directory back at once; otherwise the next worker begins anew"),
    "store_readonly": Kind("broken", "make the data directory writable for this user; nothing else is needed"),
    "store_io": Kind("broken", "check the disk (`dmesg`); work goes on by itself once it can be written"),
    "store_busy": Kind("broken", "end the program that holds the database: `fuser -v <data dir>/memory.db`"),
    "write_slow": Kind(
        "broken", "check the disk (`dmesg`); if it is well, the worker leaves by itself and is started again"
    ),
    "store_closed": Kind("broken", "run `memory-tencentdb restart`"),
    "schema_too_new": Kind("broken", "install the newer version again: `./install.sh`"),
    "data_dir": Kind("broken", "make the data directory reachable and writable, or choose another (`data.baseDir`)"),
    "store": Kind("broken", LOGS),
    "disk_low": Kind("degraded", "free space on this disk before memory stops being written"),
    "wal_large": Kind("degraded", "end the program that keeps reading the database: `fuser -v <data dir>/memory.db`"),
    "backup": Kind("degraded", "check the data directory and its disk; the next try is within the hour"),
    "network_file_system": Kind("ok", "keep the data directory on a local disk (`data.baseDir`)"),
    # the worker itself
    "worker_unreachable": Kind("broken", "memory-tencentdb start"),
    "worker_crashed": Kind("broken", "see the log, then: memory-tencentdb start"),
    "runtime_dir": Kind("broken", "correct the directory's owner or mode"),
    "config_refused": Kind("broken", "correct the setting, then run `memory-tencentdb start`"),
    "was_stuck": Kind("ok", "`memory-tencentdb logs` shows where; please report it"),
    "lock_lost": Kind("degraded", "run `memory-tencentdb restart` if it is still there in a minute"),
    "pipeline_dead": Kind("degraded", "run `memory-tencentdb restart`"),
    "pipeline_stuck": Kind("degraded", "run `memory-tencentdb restart`"),
    "pipeline_defect": Kind("degraded", "`memory-tencentdb logs` names the defect; please report it"),
    "files": Kind("degraded", "check the data directory: the readable files cannot be written there"),
    "config_file": Kind("degraded", "correct the file, then run `memory-tencentdb restart`"),
    "config": Kind(
        "degraded", "see `config.errors` here, correct the configuration, then run `memory-tencentdb restart`"
    ),
    # what it works with
    "vectors_unavailable": Kind("degraded", "reinstall the worker; search by keyword works meanwhile"),
    "embedding": Kind("degraded", "check `memory.embedding` in the configuration and its endpoint"),
    "forgetting": Kind("degraded", "it is tried again every ten seconds; end who reads the database, or free the disk"),
    "forget_pending": Kind("ok", "`memory-tencentdb forget --pending` shows it; --yes forgets it, --drop keeps it"),
    "quarantined": Kind("ok", "`memory-tencentdb quarantine list` shows it; release or drop each"),
    "memory_paused": Kind("ok", "`memory-tencentdb resume` ends it"),
    "outbox": Kind("degraded", "see `memory-tencentdb logs` for what the worker says to the first of them"),
    "overdue": Kind("lagging", LOGS),
    "retrying": Kind("lagging", "see `memory-tencentdb logs` for why"),
    "parked": Kind("ok", "`memory-tencentdb flush --parked` tries again"),
    "nothing_read": Kind(
        "degraded", "choose a model that answers in JSON, then `memory-tencentdb flush --parked` tries again"
    ),
}

FAMILIES: dict[str, Kind] = {
    "llm_": Kind("paused", "check the model's key, account and name (`memory-tencentdb config llm`)"),
    "budget_": Kind("paused", "wait for the next day, or raise `memory.budget` in the configuration"),
    "embedding_": Kind("degraded", "check the embedder's key, account and settings"),
}
"""Codes that begin so end with what the endpoint said: `llm_quota`, `embedding_auth`."""


def reason(code: str, message: str, since: int | None, action: str = "") -> Reason:
    kind = kind_of(code)
    return Reason(code, message, since, action or kind.action, kind.state)


def kind_of(code: str) -> Kind:
    """An unforeseen code is not green either."""
    if code in KINDS:
        return KINDS[code]
    return next((kind for start, kind in FAMILIES.items() if code.startswith(start)), Kind("degraded", LOGS))
