"""Everything that `doctor` can find: how bad it is, in words, and what to do about it. `docs/troubleshooting.md`
explains the codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ERROR, WARNING, NOTE = "error", "warning", "note"
"""A note is worth knowing and no reason for concern."""

MOST_SHOWN = 50

REPAIR = "memory-tencentdb doctor --repair"


@dataclass(frozen=True)
class Kind:
    severity: str
    what: str
    fix: str = REPAIR

    @property
    def repairable(self) -> bool:
        return self.fix == REPAIR


KINDS: dict[str, Kind] = {
    # what was said, and what rests on it
    "message_altered": Kind(
        ERROR, "the text of a message is not the one that was stored",
        "its text is left as it is (a copy in .backup/ may have the true one): put a backup in place, or"
        " `memory-tencentdb forget --id ID`",
    ),
    "message_gone": Kind(ERROR, "a message of this turn was removed by somebody else"),
    "turn_lost": Kind(ERROR, "a message has lost its turn"),
    "session_lost": Kind(ERROR, "a session does not know its newest message, which nobody would read"),
    "source_gone": Kind(ERROR, "a fact names a message that is not there any more"),
    "source_orphan": Kind(ERROR, "a source belongs to no fact"),
    "successor_gone": Kind(WARNING, "a fact was replaced by one that is not there any more"),
    "reference_broken": Kind(ERROR, "a row refers to one that is not there"),
    "atom_unsupported": Kind(ERROR, "a fact rests on no message that says what it said when the fact was made"),
    "atom_doubtful": Kind(
        WARNING, "one of the messages that a fact rests on was altered; others still carry it",
        "see `memory-tencentdb why ID`; forgetting the altered message takes it from under the fact",
    ),
    "atom_twins": Kind(WARNING, "the same fact is known twice"),
    "revision_altered": Kind(ERROR, "a revision is not the one that was written"),
    "line_unsupported": Kind(ERROR, "a line rests on nothing that can be shown"),
    "line_stale": Kind(
        NOTE, "a line rests on facts that hold no more", "the next run over this scene drops it: memory-tencentdb flush"
    ),
    "scene_newest": Kind(ERROR, "it is not clear which revision of a scene is in use"),
    "job_lost": Kind(ERROR, "something waits to be read and nothing will read it"),
    # what is made from the rows
    "index_missing": Kind(ERROR, "search by words does not find it"),
    "index_ghost": Kind(WARNING, "the index of words holds something that is gone"),
    "index_wrong": Kind(ERROR, "the index of words holds other words than the text"),
    "key_missing": Kind(ERROR, "the words of a message, which ranking needs, are missing"),
    "key_ghost": Kind(WARNING, "words or a place are kept of a message that is gone"),
    "place_wrong": Kind(ERROR, "a message has no place, or a wrong one, among its neighbours"),
    "vector_ghost": Kind(WARNING, "a vector belongs to nothing, or to something else"),
    "vector_lost": Kind(WARNING, "it has no vector and waits for none"),
    "queue_ghost": Kind(WARNING, "something that is gone waits for a vector"),
    # the readable files
    "file_missing": Kind(WARNING, "a readable file is missing"),
    "file_stale": Kind(WARNING, "a readable file is not what the database says; what it holds is kept in .backup/"),
    "file_foreign": Kind(WARNING, "a readable file is about a day of which nothing is known"),
    "file_unreadable": Kind(WARNING, "a readable file holds something that is no text; it is moved to .backup/"),
    "file_edited": Kind(
        NOTE, "a person has edited a file; it is read in when the worker runs", "memory-tencentdb start"
    ),
    "file_linked": Kind(WARNING, "a link stands where a file or directory of ours should"),
    "modes_wide": Kind(WARNING, "other users of this machine can read it"),
    # the database as a file
    "store_corrupt": Kind(ERROR, "the database is damaged", "put a backup in its place"),
    "damage": Kind(ERROR, "a page of the database is damaged", "stop the worker; `status` then names the way back"),
    "schema_older": Kind(NOTE, "an older version wrote the database", "the next start brings it up to date"),
    "backup_bad": Kind(WARNING, "a backup cannot be read; it is moved to .backup/damaged/"),
    "backup_none": Kind(NOTE, "there is no backup yet", "the worker makes one each day"),
    "disk_low": Kind(WARNING, "little space is left on this disk", "free space before memory stops being written"),
    "clock_behind": Kind(
        WARNING, "the clock stands before the newest message", "set the clock; order does not depend on it, dates do"
    ),
    # turns that wait
    "outbox_waiting": Kind(WARNING, "turns wait to be stored", "memory-tencentdb start"),
    "outbox_refused": Kind(NOTE, "turns were refused and set aside", "read the reasons in this file"),
    "reserve_missing": Kind(NOTE, "there is no reserve for a full disk", "the next host makes it"),
    # whether it answers
    "canary_failed": Kind(ERROR, "what was written just now was not found again", "see `memory-tencentdb logs`"),
    "canary_paused": Kind(NOTE, "memory is paused, so that nothing was written for a test", "memory-tencentdb resume"),
    "model_silent": Kind(WARNING, "the model does not answer", "check its key, account and name (`config llm`)"),
    "embedder_silent": Kind(WARNING, "the embedder does not answer", "check its settings (`config embedding`)"),
    # around it
    "python_old": Kind(ERROR, "this Python is too old", "install Python 3.11 or newer, then ./install.sh"),
    "package_missing": Kind(ERROR, "a package is not installed or too old", "./install.sh"),
    "worker_older": Kind(WARNING, "the running worker is of another version", "memory-tencentdb restart"),
    "worker_away": Kind(NOTE, "no worker runs", "memory-tencentdb start"),
    "config_broken": Kind(ERROR, "the configuration file cannot be read", "correct the file"),
    "config_refused": Kind(ERROR, "a setting forbids the worker to start", "correct the setting"),
    "config_error": Kind(WARNING, "a setting cannot be used", "correct the setting, or remove it"),
    "host_unset": Kind(WARNING, "the host does not use this memory", "./install.sh --enable"),
    "host_config": Kind(ERROR, "the host's configuration cannot be read", "correct the file"),
    "plugin_missing": Kind(WARNING, "the host has no plug-in of ours", "./install.sh --enable"),
    "plugin_link": Kind(ERROR, "the link to the plug-in leads nowhere, or elsewhere", "./install.sh"),
    "plugin_version": Kind(WARNING, "plug-in and worker differ in their versions", "./install.sh"),
    "lock_stale": Kind(WARNING, "the last worker did not leave as it should"),
    "lock_broken": Kind(WARNING, "the lock's file does not say who holds it"),
    "worker_silent": Kind(ERROR, "a worker holds the data directory but cannot be reached", "memory-tencentdb restart"),
    "socket_stale": Kind(WARNING, "a socket is left of a worker that is gone"),
    "socket_foreign": Kind(ERROR, "what lies in the place of the socket is none", "move it away"),
    "announcement_stale": Kind(WARNING, "worker.json names a worker that is gone"),
    "runtime_dir": Kind(ERROR, "the directory of the socket is not private", "correct the directory's owner or mode"),
}  # fmt: skip


def finding(code: str, where: Sequence[object], detail: str = "", fix: str = "") -> dict[str, Any]:
    """One entry of the report. `where` holds ids or paths; of many the first ones are shown, `count` has them all."""
    kind = KINDS[code]
    return {
        "code": code,
        "severity": kind.severity,
        "what": f"{kind.what}: {detail}" if detail else kind.what,
        "where": [str(one) for one in where[:MOST_SHOWN]],
        "count": len(where),
        "fix": fix or kind.fix,
        "repairable": kind.repairable,
    }


def is_clean(findings: Sequence[dict[str, Any]]) -> bool:
    return all(one["severity"] == NOTE for one in findings)
