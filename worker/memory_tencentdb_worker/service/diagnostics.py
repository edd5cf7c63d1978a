"""A bundle for whoever helps: plain files that a person can read before sharing them. It holds no text of a
conversation, no fact, no name of a session, user or scene, and no secret."""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_tencentdb.paths import private_dir
from memory_tencentdb_worker.errors import ConfigError
from memory_tencentdb_worker.logs import LOG_FILE

LOG_LINES = 500
OUTPUT_LOG = "worker.out.log"

_STATUS_KEYS = ("state", "mode", "worker", "counts", "outbox", "llm", "embedding", "calls", "storage")
_OF_NOBODY = re.compile(
    r"(?:m|l0)_[0-9a-f]{16}|(?:message|atom|L0|L1) row \d+|space_\d+_l[01] row \d+|persona revision \d+"
)
"""What may stand in the report of the doctor: ids and numbers of rows. Names of scenes and sessions may tell."""

CONTENTS = {
    "status.json": "state, reasons, counts, model and embedder in use, with the last error of each",
    "doctor.json": "what `doctor` found: codes, counts, ids; no names",
    "config.json": "every setting in force and where it comes from; secrets masked",
    "versions.json": "versions of Python, system and packages",
    "files.json": "number, size and modes of the files in home and data directory, by kind",
    LOG_FILE: f"the last {LOG_LINES} lines of the worker's log; secrets masked",
    OUTPUT_LOG: f"the last {LOG_LINES} lines of what the worker printed (crashes); secrets masked",
}
"""All that is in a bundle."""


@dataclass(frozen=True)
class Gathered:
    """`mask` takes secrets out of a text."""

    status: Mapping[str, Any]
    doctor: Mapping[str, Any]
    config: Mapping[str, Any]
    versions: Mapping[str, str]
    home: Path
    data_dir: Path
    logs: Path
    mask: Callable[[str], str]


def write_bundle(folder: Path, gathered: Gathered) -> list[Path]:
    """Makes the directory (0700) and its files (0600). Raises ConfigError when something is there already, OSError."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty: choose another directory")
    documents = {
        "status.json": _status(gathered.status),
        "doctor.json": _doctor(gathered.doctor),
        "config.json": gathered.config,
        "versions.json": gathered.versions,
        "files.json": _files(gathered.home, gathered.data_dir),
    }
    texts = {name: json.dumps(one, ensure_ascii=False, indent=2) + "\n" for name, one in documents.items()}
    for name in (LOG_FILE, OUTPUT_LOG):
        texts[name] = "".join(_last_lines(gathered.logs / name))
    texts["README.txt"] = _read_me()
    private_dir(folder)
    hidden = _Hidden(gathered)
    return [_write(folder / name, hidden.text(text)) for name, text in sorted(texts.items())]


class _Hidden:
    """Takes out secrets and the name of the person whose home directory it is."""

    def __init__(self, gathered: Gathered) -> None:
        self._mask, self._own = gathered.mask, str(Path.home())

    def text(self, text: str) -> str:
        masked = self._mask(text)
        return masked.replace(self._own, "~") if len(self._own) > 1 else masked


def _status(document: Mapping[str, Any]) -> dict[str, Any]:
    jobs = dict(document.get("jobs") or {})
    jobs["failing"] = [
        {name: one.get(name) for name in ("kind", "attempts", "due_at")} for one in jobs.get("failing") or []
    ]
    config = document.get("config") or {}
    return {name: document.get(name) for name in _STATUS_KEYS} | {
        "reasons": [{name: one.get(name) for name in ("code", "since")} for one in document.get("reasons") or []],
        "jobs": jobs,
        "config_errors": [{"key": one.get("key"), "problem": one.get("problem")} for one in config.get("errors") or []],
    }


def _doctor(report: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("code", "severity", "count", "fix", "repairable")
    findings = [
        {name: one[name] for name in shown} | {"where": [id for id in one["where"] if _OF_NOBODY.fullmatch(id)]}
        for one in report.get("findings", [])
    ]
    return {"clean": report.get("clean"), "worker": report.get("worker"), "findings": findings}


def _files(home: Path, data_dir: Path) -> dict[str, dict[str, Any]]:
    """By directory, because names of files may tell."""
    found: dict[str, dict[str, Any]] = {}
    for root in dict.fromkeys((home, data_dir)):
        for folder, _, names in os.walk(root):
            place = _place(Path(folder), home, data_dir)
            entry = found.setdefault(place, {"files": 0, "size_bytes": 0, "modes": []})
            if root != data_dir and Path(folder).is_relative_to(data_dir):
                continue
            for name in names:
                _count(entry, Path(folder, name))
    return {place: entry for place, entry in found.items() if entry["files"]}


def _place(folder: Path, home: Path, data_dir: Path) -> str:
    root, name = (data_dir, "data") if folder.is_relative_to(data_dir) else (home, "home")
    parts = ["*" if part not in _KNOWN else part for part in folder.relative_to(root).parts]
    return "/".join([name, *parts])


_KNOWN = frozenset(
    {"outbox", "logs", "conversations", "records", "scene_blocks", ".metadata", ".backup", ".generations", "users"}
)


def _count(entry: dict[str, Any], path: Path) -> None:
    try:
        facts = path.lstat()
    except OSError:
        return  # it went away meanwhile
    entry["files"] += 1
    entry["size_bytes"] += facts.st_size
    mode = oct(facts.st_mode & 0o777)
    if mode not in entry["modes"]:
        entry["modes"].append(mode)


def _last_lines(path: Path) -> Sequence[str]:
    """Without lines below INFO, which may quote."""
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return deque((line for line in stream if " DEBUG " not in line), maxlen=LOG_LINES)
    except FileNotFoundError:
        return ()


def _read_me() -> str:
    lines = [f"{name:<16} {what}" for name, what in CONTENTS.items()]
    head = (
        "What memory-tencentdb gathered for whoever looks into a problem.\n"
        "Nothing was sent anywhere. Read the files before you share them; leave out what you do not want to share.\n"
        "No text of a conversation and no memory is in here. Your home directory is written as ~.\n"
    )
    return "\n".join([head, *lines, ""])


def _write(path: Path, text: str) -> Path:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)
    return path
