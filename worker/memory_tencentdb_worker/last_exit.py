"""Why the worker of a home left in good order, kept beside its log for whoever finds it gone. (Crashes are noted by
the providers that miss it, see `memory_tencentdb.starts`.)"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from memory_tencentdb.starts import EXIT_STUCK

logger = logging.getLogger(__name__)

FILE = "last-exit.json"
IDLE = "idle"
SIZE = "size"
LOST = "lost"
"""Its socket, its lock's file or its database was removed."""
STUCK = "stuck"
"""A write stood still."""
ASKED = "asked"
"""By a stop request or a signal."""


class LastExit(NamedTuple):
    at: int  # epoch ms
    reason: str
    idle_seconds: float = 0.0

    def describe(self) -> str:
        """In a sentence; "" when there is nothing to explain because somebody asked for it."""
        if self.reason == IDLE:
            return f"it left after {_minutes(self.idle_seconds)}, nothing is wrong"
        if self.reason == SIZE:
            return "it left because it had grown large, nothing is lost"
        if self.reason == LOST:
            return "it left because its socket, its lock or its database was removed; its log says which"
        if self.reason == STUCK:
            return "it left because a write stood still although the disk answered; its log says where, nothing is lost"
        return ""


def leave_stuck(logs: Path, complaint: str, now: int) -> NoReturn:
    """Ends the process here and now: an orderly end would wait for the very write that stands still. What each thread
    waits for goes to stderr."""
    logger.error("the worker ends itself: %s", complaint)
    with suppress(OSError):
        note_exit(logs, LastExit(now, STUCK))
    faulthandler.dump_traceback(all_threads=True)
    os._exit(EXIT_STUCK)


def note_exit(logs: Path, left: LastExit) -> None:
    """Raises OSError."""
    temporary = logs / f".{FILE}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(left._asdict(), file)
    temporary.replace(logs / FILE)


def forget_exit(logs: Path) -> None:
    """A worker serves again: should it be killed, nothing must speak for it."""
    (logs / FILE).unlink(missing_ok=True)


def read_exit(logs: Path) -> LastExit | None:
    try:
        noted = json.loads((logs / FILE).read_text(encoding="utf-8"))
        return LastExit(int(noted["at"]), str(noted["reason"]), float(noted.get("idle_seconds", 0)))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} idle seconds"
    return f"{seconds / 60:.0f} idle minutes"
