"""The worker's log: one event, one line, in a file that rotates; known secrets are masked wherever they turn up."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterable, Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path

from memory_tencentdb.paths import private_dir

LOG_FILE = "worker.log"
FILE_LIMIT_BYTES = 5 * 1024 * 1024
OLD_FILES = 3

_SHORTEST_SECRET = 6
"""Masking shorter values would blank ordinary words."""

_LOOKS_SECRET = re.compile(r"\b(Bearer\s+|sk-|api[-_]?key[\"']?\s*[=:]\s*[\"']?)[A-Za-z0-9._~+/-]{6,}", re.IGNORECASE)


class LineFormatter(logging.Formatter):
    """Time (UTC), level, logger, message; a traceback is folded into the same line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.secrets: set[str] = set()

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        return self.mask(super().format(record)).replace("\r", "").replace("\n", " | ")

    def mask(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return _LOOKS_SECRET.sub(r"\1***", text)


class WorkerLog:
    """Owns the handlers of the root logger while the worker runs."""

    def __init__(self, folder: Path, level: str) -> None:
        self.path = private_dir(folder) / LOG_FILE
        self._formatter = LineFormatter()
        file = RotatingFileHandler(
            self.path, maxBytes=FILE_LIMIT_BYTES, backupCount=OLD_FILES, encoding="utf-8", errors="backslashreplace"
        )
        self._handlers: list[logging.Handler] = [file]
        if sys.stderr is not None and sys.stderr.isatty():
            self._handlers.append(logging.StreamHandler())
        root = logging.getLogger()
        root.setLevel(_level(level))
        for handler in self._handlers:
            handler.setFormatter(self._formatter)
            root.addHandler(handler)
        for noisy in ("httpx", "httpcore", "watchdog", "uvicorn", "asyncio"):
            logging.getLogger(noisy).setLevel(logging.WARNING)

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """From now on these texts are masked."""
        self._formatter.secrets |= {secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}

    def close(self) -> None:
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)
            handler.close()
        self._handlers.clear()


def log_dir(home: Path, env: Mapping[str, str]) -> Path:
    explicit = env.get("MEMORY_TENCENTDB_LOG_DIR")
    return Path(explicit).expanduser().absolute() if explicit else home / "logs"


def _level(name: str) -> int:
    return logging.getLevelNamesMapping().get(name.strip().upper(), logging.INFO)
