"""What the composition root tells the service about this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class WorkerFacts:
    """Fixed for the life of a worker. `config_errors` hold `key, value, problem, used`, secrets already masked."""

    home: Path
    data_dir: Path
    socket: str
    pid: int
    started_at: int
    config_file: str | None = None
    config_errors: tuple[Mapping[str, object], ...] = ()
    lock: Path | None = None  # the file whose kernel lock keeps a second worker away
    stuck_at: int | None = None  # when the worker before this one ended itself because its writes stood still
    gateway: str = ""  # address of the TCP listener, if there is one
    config_broken: str = ""  # file, line and reason when the configuration file could not be read at all
