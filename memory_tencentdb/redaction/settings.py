"""What providers and worker of one home agree on: the key of the fingerprints, and what the owner allows.

`<home>/redaction.json` is written by the worker, which alone reads the configuration. Without it everything is
redacted; a provider that comes first only adds the key.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from pathlib import Path
from typing import NamedTuple

from ..paths import private_dir
from . import Redactor

logger = logging.getLogger(__name__)

FILE = "redaction.json"
KEY_BYTES = 32


class RedactionSettings(NamedTuple):
    enabled: bool = True
    allow: tuple[str, ...] = ()
    personal: bool = False


class HomeRedactor:
    """The redactor of a home, by its file as it is now. Thread-safe."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._seen: tuple[int, int] | None = None
        self._redactor: Redactor | None = None

    def get(self) -> Redactor:
        with self._lock:
            if self._redactor is None or self._mark() != self._seen:
                self._redactor = load_redactor(self._home)
                self._seen = self._mark()
            return self._redactor

    def _mark(self) -> tuple[int, int] | None:
        try:
            facts = (self._home / FILE).stat()
        except OSError:
            return None
        return facts.st_mtime_ns, facts.st_ino


def load_redactor(home: Path) -> Redactor:
    """Never fails: where the key cannot be kept, it holds as long as this process."""
    key, settings = _read(home)
    if key is None:
        key = _keep_key(home, secrets.token_bytes(KEY_BYTES))
    return _redactor(key, settings)


def announce_settings(home: Path, settings: RedactionSettings) -> Redactor:
    """For the worker: from now on every provider of the home redacts in this way. Never fails, as `load_redactor`."""
    key, known = _read(home)
    if key is None or settings != known:
        key = key or secrets.token_bytes(KEY_BYTES)
        try:
            _write(home, key, settings).replace(home / FILE)
        except OSError as error:
            logger.warning("memory_tencentdb: %s cannot be written: %s", home / FILE, error)
    return _redactor(key, settings)


def _redactor(key: bytes, settings: RedactionSettings) -> Redactor:
    return Redactor(key, enabled=settings.enabled, allow=settings.allow, personal=settings.personal)


def _read(home: Path) -> tuple[bytes | None, RedactionSettings]:
    """A file that cannot be understood is as good as none: everything is redacted."""
    try:
        noted = json.loads((home / FILE).read_text(encoding="utf-8"))
        key = bytes.fromhex(noted["key"])
        allow = tuple(entry for entry in noted.get("allow", []) if isinstance(entry, str))
        settings = RedactionSettings(noted.get("enabled") is not False, allow, noted.get("personal") is True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, RedactionSettings()
    return (key, settings) if len(key) == KEY_BYTES else (None, settings)


def _keep_key(home: Path, key: bytes) -> bytes:
    """The key that the file holds in the end: of two processes that make one at once, the first one's."""
    try:
        temporary = _write(private_dir(home), key, RedactionSettings())
        try:
            os.link(temporary, home / FILE)
        except FileExistsError:
            held, _ = _read(home)
            if held is not None:
                return held
            temporary.replace(home / FILE)
        except OSError:  # a file system without hard links
            temporary.replace(home / FILE)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("memory_tencentdb: the key in %s cannot be kept: %s", home / FILE, error)
    return key


def _write(home: Path, key: bytes, settings: RedactionSettings) -> Path:
    """A whole new file beside the one in use."""
    temporary = home / f".{FILE}.{os.getpid()}.{threading.get_ident()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"key": key.hex(), **settings._asdict()}, file)
    return temporary
