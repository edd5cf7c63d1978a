"""What `doctor` looks at from outside the worker: Python and packages, the host, configuration, lock and socket."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from memory_tencentdb import paths
from memory_tencentdb.holder import ENDED, LOCK_FILE, is_held, read_holder
from memory_tencentdb.locks import LockFile
from memory_tencentdb.protocol import VERSION
from memory_tencentdb_worker.errors import AlreadyRunning
from memory_tencentdb_worker.lock import WorkerLock
from memory_tencentdb_worker.places import Places
from memory_tencentdb_worker.service.doctor_kinds import finding
from memory_tencentdb_worker.socket_file import WORKER_FILE

DISTRIBUTION = "memory-tencentdb"
OLDEST_PYTHON = (3, 11)
STARTER_SECONDS = 10.0

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?P<bounds>[^;]*);.*extra == ['\"]worker['\"]")
_BOUND = re.compile(r"(>=|<)\s*([\d.]+)")


def look_outside(places: Places, enabled: Callable[[str], str]) -> list[dict[str, Any]]:
    """`enabled` reads the memory provider out of a host's configuration; it raises ConfigError."""
    found = _environment() + _configuration(places) + look_at_host(places.home, enabled)
    return found + _process(places)


def repair_outside(places: Places) -> None:
    """Takes away what a worker that is gone has left. One that runs, or is about to, is left alone."""
    if not places.data_dir.is_dir():
        return
    with LockFile(paths.start_lock_path(places.data_dir)) as starting:
        if not starting.acquire(STARTER_SECONDS):
            return
        try:
            lock = WorkerLock(places.data_dir)
        except AlreadyRunning:
            return
        try:
            for one in _left_behind(places):
                Path(one["where"][0]).unlink(missing_ok=True)
        finally:
            lock.release()  # which notes that nobody holds it


def look_at_host(home: Path, enabled: Callable[[str], str]) -> list[dict[str, Any]]:
    """Only for a home inside a host's: its configuration names us, and its plug-in is this version's."""
    config = home.parent / "config.yaml"
    if home.name != "memory_tencentdb" or not config.is_file():
        return []
    return _host_config(config, enabled) + _plugin(home.parent / "plugins" / "memory_tencentdb")


# ------------------------------------------------------------------------------------------------- environment


def _environment() -> list[dict[str, Any]]:
    found = []
    if sys.version_info < OLDEST_PYTHON:
        found.append(finding("python_old", [sys.executable], sys.version.split()[0]))
    missing = [text for text in map(_missing, _requirements()) if text]
    return found + ([finding("package_missing", missing)] if missing else [])


def _requirements() -> list[re.Match[str]]:
    """Of the worker; none where it runs out of a checkout that is not installed."""
    try:
        named = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
    return [match for text in named if (match := _REQUIREMENT.match(text))]


def _missing(requirement: re.Match[str]) -> str:
    name = requirement["name"]
    try:
        there = version(name)
    except PackageNotFoundError:
        return name
    fits = all(
        (_numbers(there) >= _numbers(bound)) if sign == ">=" else (_numbers(there) < _numbers(bound))
        for sign, bound in _BOUND.findall(requirement["bounds"])
    )
    return "" if fits else f"{name} {there} ({requirement['bounds'].strip()})"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


# ------------------------------------------------------------------------------------------------ configuration


def _configuration(places: Places) -> list[dict[str, Any]]:
    loaded = places.loaded
    found = []
    if loaded.fatal:
        found.append(finding("config_refused", loaded.fatal))
    if loaded.broken:
        found.append(finding("config_broken", [loaded.file or places.home], loaded.broken))
    elif loaded.errors:
        found.append(finding("config_error", [f"{one.key}: {one.problem}" for one in loaded.errors]))
    return found


def _host_config(config: Path, enabled: Callable[[str], str]) -> list[dict[str, Any]]:
    from memory_tencentdb_worker.errors import ConfigError

    try:
        provider = enabled(config.read_text(encoding="utf-8-sig"))
    except (ConfigError, OSError, UnicodeDecodeError) as error:
        return [finding("host_config", [config], str(error))]
    if provider == "memory_tencentdb":
        return []
    return [finding("host_unset", [config], f"memory.provider is {provider or 'not set'}")]


def _plugin(folder: Path) -> list[dict[str, Any]]:
    described = folder / "plugin.yaml"
    if not described.is_file():
        code = "plugin_link" if folder.is_symlink() else "plugin_missing"
        return [finding(code, [folder])]
    text = described.read_text(encoding="utf-8", errors="replace")
    if not re.search(r"^name:\s*memory_tencentdb\s*$", text, re.MULTILINE):
        return [finding("plugin_link", [folder])]
    match = re.search(r"^version:\s*[\"']?([^\s\"']+)", text, re.MULTILINE)
    if match and match[1] != VERSION:
        return [finding("plugin_version", [folder], f"{match[1]}, the worker is {VERSION}")]
    return []


# ----------------------------------------------------------------------------------------------- lock and socket


def _process(places: Places) -> list[dict[str, Any]]:
    """Nothing is said while somebody starts or ends the worker."""
    if not places.data_dir.is_dir():
        return []
    try:
        path = paths.socket_path(places.data_dir)
        starting = LockFile(paths.start_lock_path(places.data_dir))
    except OSError as error:
        return [finding("runtime_dir", [str(error)])]
    with starting:
        if not starting.acquire():
            return []
        if is_held(places.data_dir):
            return [] if _listens(path) else [finding("worker_silent", [path])]
        return _lock(places.data_dir) + _foreign(path) + _left_behind(places)


def _lock(data_dir: Path) -> list[dict[str, Any]]:
    path = data_dir / LOCK_FILE
    if not path.exists():
        return []
    noted = read_holder(data_dir)
    if noted is None:
        return [finding("lock_broken", [path])]
    return [] if noted.state == ENDED else [finding("lock_stale", [path], f"pid {noted.pid}, {noted.state}")]


def _foreign(path: Path) -> list[dict[str, Any]]:
    return [finding("socket_foreign", [path])] if os.path.lexists(path) and not _is_socket(path) else []


def _left_behind(places: Places) -> list[dict[str, Any]]:
    """Of a worker that is gone."""
    path, announced = paths.socket_path(places.data_dir), places.home / WORKER_FILE
    found = []
    if _is_socket(path) and not _listens(path):
        found.append(finding("socket_stale", [path]))
    if announced.exists() and not _listens(_announced_socket(announced)):
        found.append(finding("announcement_stale", [announced]))
    return found


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _announced_socket(path: Path) -> Path:
    try:
        return Path(str(json.loads(path.read_text(encoding="utf-8"))["socket"]))
    except (OSError, ValueError, KeyError, TypeError):
        return path  # which is no socket


def _listens(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            probe.connect(os.fspath(path))
    except OSError:
        return False
    return True
