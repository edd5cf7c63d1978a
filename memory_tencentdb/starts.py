"""What all processes know together about the starts of one data directory's worker: crashes, rests, upgrades.

Kept beside the socket, changed under the start lock only, and shown by `status` while no worker answers.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .errors import SpawnFailed
from .paths import data_dir_key, runtime_dir

FREE_CRASHES = 5
"""So many crashes in a row are answered with a new start at once; then come rests that double."""
FIRST_REST_SECONDS = 10.0
LONGEST_REST_SECONDS = 600.0
STABLE_SECONDS = 60.0
"""A worker that has lived this long was a good start: what came before is forgotten."""
REPLACE_AGAIN_SECONDS = 3600.0
"""One upgrade replaces a worker once; when the new start brings up the old version again (only the provider was
upgraded), it is not stopped at every session (trap B10)."""
EXIT_CONFIGURATION = 3
EXIT_STUCK = 70
"""EX_SOFTWARE of sysexits.h: a write stood still although the disk answered, and the worker has ended itself. It counts
as a crash, so that one that does so again and again is given rests."""
KEPT_LINES = 5


class Crash(NamedTuple):
    """The last end that was not wanted, the `streak`th in a row. `exit_code` None: not known; negative: a signal."""

    at: float
    streak: int
    exit_code: int | None
    reason: str
    lines: tuple[str, ...]

    def describe(self) -> str:
        return f"{self.reason}: {self.lines[-1]}" if self.lines else self.reason


class Starts:
    """The record of one data directory. A record that cannot be read counts as empty."""

    def __init__(self, data_dir: Path) -> None:
        self._path = runtime_dir() / f"{data_dir_key(data_dir)}.starts.json"

    def last_crash(self) -> Crash | None:
        noted = self._read().get("crash")
        try:
            return Crash(**{**noted, "lines": tuple(noted["lines"])}) if isinstance(noted, dict) else None
        except (TypeError, KeyError):
            return None

    def check(self, now: float, settings_changed_at: float) -> None:
        """Raises SpawnFailed while the worker is given a rest. A worker that refused its settings (exit code 3) rests
        until they have changed, or for a minute: whatever else it may have been is not in a file."""
        crash = self.last_crash()
        if crash is None or now < crash.at:
            return
        if crash.exit_code == EXIT_CONFIGURATION:
            if now - crash.at < STABLE_SECONDS and settings_changed_at < crash.at:
                raise SpawnFailed(crash.describe(), EXIT_CONFIGURATION)
            return
        left = rest_seconds(crash.streak) - (now - crash.at)
        if left > 0:
            raise SpawnFailed(
                f"the worker crashed {crash.streak} times in a row and is given a rest of {left:.0f} s more; "
                f"{crash.describe()}"
            )

    def note_crash(self, now: float, exit_code: int | None, reason: str, lines: Sequence[str] = ()) -> Crash:
        known, before = self._read(), self.last_crash()
        soon = now - _instant(known) < STABLE_SECONDS
        streak = before.streak + 1 if before is not None and soon else 1
        crash = Crash(now, streak, exit_code, reason, tuple(lines[-KEPT_LINES:]))
        self._write(known | {"crash": crash._asdict()})
        return crash

    def note_start(self, now: float) -> None:
        self._write(self._read() | {"started_at": now})

    def settle(self, now: float) -> None:
        """A worker answers: once it has been there for a while, its predecessor's end is forgotten."""
        known, crash = self._read(), self.last_crash()
        if crash is not None and now - max(_instant(known), crash.at) >= STABLE_SECONDS:
            self._write({key: value for key, value in known.items() if key != "crash"})

    def may_replace(self, pair: str, now: float) -> bool:
        """Whether `pair` (a version by another) has not been replaced lately; notes that it is replaced now."""
        known = self._read()
        last = known.get("replaced")
        if isinstance(last, dict) and last.get("pair") == pair and 0 <= now - last.get("at", 0) < REPLACE_AGAIN_SECONDS:
            return False
        self._write(known | {"replaced": {"pair": pair, "at": now}})
        return True

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _write(self, known: dict[str, Any]) -> None:
        temporary = self._path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(known, file)
        temporary.replace(self._path)


def _instant(known: dict[str, Any]) -> float:
    started_at = known.get("started_at")
    return float(started_at) if isinstance(started_at, (int, float)) else 0.0


def rest_seconds(crashes: int) -> float:
    """How long the worker is left alone after so many crashes in a row."""
    if crashes < FREE_CRASHES:
        return 0.0
    return min(FIRST_REST_SECONDS * 2.0 ** min(crashes - FREE_CRASHES, 20), LONGEST_REST_SECONDS)
