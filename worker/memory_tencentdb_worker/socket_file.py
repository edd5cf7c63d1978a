"""Where the worker listens and how it is found: the data directory's Unix socket and `<home>/worker.json`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import stat
import tempfile
from pathlib import Path

from memory_tencentdb.protocol import PROTOCOL, VERSION
from memory_tencentdb_worker.errors import ConfigError

WORKER_FILE = "worker.json"

BACKLOG = 256

_PROBE_SECONDS = 1.0


class WorkerSocket:
    """A listening socket of mode 0600. Made while the data directory's lock is held, so no peer can be starting."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _remove_stale(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.bind(str(path))
            path.chmod(0o600)
            self.socket.listen(BACKLOG)
        except OSError as error:
            self.socket.close()
            raise ConfigError(f"cannot listen on {path}: {error.strerror}", code="socket") from error
        self._inode = path.stat().st_ino

    def close(self) -> None:
        """Removes the socket's file when it is still the one made here. Safe to call twice."""
        self.socket.close()
        with contextlib.suppress(FileNotFoundError):
            if self.path.stat().st_ino == self._inode:
                self.path.unlink()


def announce(home: Path, data_dir: Path, socket_path: Path) -> Path:
    """Writes `worker.json` in one step, readable for its owner only, and returns its path."""
    facts = {
        "data_dir": str(data_dir),
        "socket": str(socket_path),
        "pid": os.getpid(),
        "version": VERSION,
        "protocol": PROTOCOL,
    }
    path = home / WORKER_FILE
    handle, name = tempfile.mkstemp(prefix=f".{WORKER_FILE}.", dir=home)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(facts, stream)
    os.replace(name, path)
    return path


def withdraw(path: Path) -> None:
    """Removes `worker.json` unless another worker has announced itself there meanwhile."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if isinstance(facts, dict) and facts.get("pid") == os.getpid():
        path.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """Only a refused connection means that a socket's owner is dead; anything else at the path is left alone."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"{path} is not a socket; it is left alone, move it away", code="socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        outcome = probe.connect_ex(str(path))
    if outcome == errno.ECONNREFUSED:
        path.unlink(missing_ok=True)
    elif outcome != errno.ENOENT:
        raise ConfigError(f"another process listens on {path}; it is left alone", code="socket")
