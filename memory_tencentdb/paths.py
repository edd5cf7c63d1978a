"""Where things are (CONTRACT section 3). Pure look-ups, except `private_dir`, which creates."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

SOCKET_PATH_LIMIT_BYTES = 100
"""A Unix socket address holds about 104 bytes on macOS and 108 on Linux (trap B19)."""


def root_dir() -> Path:
    """The worker's venv and nothing private."""
    return Path(os.environ.get("MEMORY_TENCENTDB_ROOT") or "~/.memory-tencentdb").expanduser().absolute()


def hermes_home() -> Path:
    return Path(os.environ.get("HERMES_HOME") or "~/.hermes").expanduser().absolute()


def home_under_hermes(home: str | os.PathLike[str] | None = None) -> Path:
    """The home of one Hermes profile."""
    return (Path(home).expanduser().absolute() if home else hermes_home()) / "memory_tencentdb"


def default_home() -> Path:
    """Where the command line looks when it is told nothing: an explicit home, else the Hermes profile that has one,
    else the standalone home."""
    explicit = os.environ.get("MEMORY_TENCENTDB_HOME")
    if explicit:
        return Path(explicit).expanduser().absolute()
    standalone = root_dir() / "home"
    under_hermes = home_under_hermes()
    if os.environ.get("HERMES_HOME") or (under_hermes.is_dir() and not standalone.is_dir()):
        return under_hermes
    return standalone


def default_data_dir(home: Path) -> Path:
    """Without configuration. `TDAI_DATA_DIR` stays in force whatever the home is."""
    explicit = os.environ.get("TDAI_DATA_DIR")
    return Path(explicit).expanduser().absolute() if explicit else home / "data"


def runtime_dir() -> Path:
    """Private directory for sockets, locks and start-up files; made 0700. Raises OSError when it is another user's."""
    import tempfile

    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and Path(base).is_dir() and len(os.fsencode(base)) < SOCKET_PATH_LIMIT_BYTES - 50:
        return private_dir(Path(base) / "memory-tencentdb")
    temporary = tempfile.gettempdir()
    if len(os.fsencode(temporary)) >= SOCKET_PATH_LIMIT_BYTES - 50:
        temporary = "/tmp"  # noqa: S108 - only the short root of a directory that is checked to be ours
    return private_dir(Path(temporary) / f"memory-tencentdb-{user_id()}")


def data_dir_key(data_dir: Path) -> str:
    """A short name for one data directory, the same however its path is spelled."""
    import hashlib

    return hashlib.sha256(os.fsencode(os.path.realpath(data_dir))).hexdigest()[:20]


def socket_path(data_dir: Path) -> Path:
    return runtime_dir() / f"{data_dir_key(data_dir)}.sock"


def start_lock_path(data_dir: Path) -> Path:
    """Held by whoever starts or ends the worker of a data directory."""
    return runtime_dir() / f"{data_dir_key(data_dir)}.start.lock"


def private_dir(path: Path) -> Path:
    """Makes `path` (and parents) and narrows it to its owner. Raises PermissionError when it is another user's."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if sys.platform != "win32":
        facts = path.stat()
        if facts.st_uid != user_id():
            raise PermissionError(
                f"{path} belongs to user {facts.st_uid}, not to {user_id()}: choose another directory"
            )
        if stat.S_IMODE(facts.st_mode) != 0o700:
            path.chmod(0o700)
    return path


def user_id() -> int:
    return os.getuid() if sys.platform != "win32" else 0
