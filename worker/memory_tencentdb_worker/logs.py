"""The worker's log: one event, one line, in a file that rotates; secrets are masked wherever they turn up."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType

from memory_tencentdb.paths import private_dir
from memory_tencentdb.redaction import hide_secrets

LOG_FILE = "worker.log"
FILE_LIMIT_BYTES = 5 * 1024 * 1024
OLD_FILES = 3
OUTPUT_LIMIT_BYTES = 5 * 1024 * 1024
STDERR = 2

_SHORTEST_SECRET = 6
"""Masking shorter values would blank ordinary words."""

_MAY_BE_SECRET = re.compile(r"\b(Bearer\s+|sk-|api[-_]?key[\"']?\s*[=:]\s*[\"']?)[A-Za-z0-9._~+/-]{6,}", re.IGNORECASE)
"""A log holds no prose: what stands there goes even where it is too plain for the rules."""


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
        return _MAY_BE_SECRET.sub(r"\1***", hide_secrets(text))


def hide_in_tracebacks() -> None:
    """What no one has caught is printed without secrets: stderr is a file that stays."""

    def print_hidden(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        print(hide_secrets("".join(traceback.format_exception(kind, error, trace))), file=sys.stderr)

    sys.excepthook = print_hidden
    threading.excepthook = lambda facts: print_hidden(facts.exc_type, facts.exc_value, facts.exc_traceback)


class _LogFile(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """A disk that takes no more costs lines of the log and nothing else."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the lines that the disk did not take are tried once more here
            super().close()


class WorkerLog:
    """Owns the handlers of the root logger while the worker runs."""

    def __init__(self, folder: Path, level: str) -> None:
        self.path = private_dir(folder) / LOG_FILE
        self._formatter = LineFormatter()
        file = _LogFile(
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


def trim_output(limit_bytes: int = OUTPUT_LIMIT_BYTES) -> None:
    """Empties the file that this process prints to once it has grown too long. Only libraries print, and crashes; a
    terminal, a pipe or a file that is not written at its end is somebody's own."""
    if sys.platform == "win32":
        return
    import fcntl

    facts = os.fstat(STDERR)
    if stat.S_ISREG(facts.st_mode) and facts.st_size > limit_bytes and fcntl.fcntl(STDERR, fcntl.F_GETFL) & os.O_APPEND:
        os.ftruncate(STDERR, 0)
        logging.getLogger(__name__).warning("the output file had grown to %d bytes and was emptied", facts.st_size)


def log_dir(home: Path, env: Mapping[str, str]) -> Path:
    explicit = env.get("MEMORY_TENCENTDB_LOG_DIR")
    return Path(explicit).expanduser().absolute() if explicit else home / "logs"


def _level(name: str) -> int:
    return logging.getLevelNamesMapping().get(name.strip().upper(), logging.INFO)
