"""Which content of a document file is ours, and which a person's.

For each file the store keeps the hash of what we wrote last. A file with another content is a person's edit and is left
alone until the store says the same as the file, or holds a newer revision made after the edit was handed out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memory_tencentdb import faults
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.projection_files import content_hash, read_bytes, remove_file, write_file

EDIT_LIMIT_BYTES = 256 * 1024
"""A larger file is no document that a person wrote; it is left as it is and not read in."""

DELETED = ""

SaysTheSame = Callable[[str], bool]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Record:
    """Contents that are ours: "hash", or while a file changes "old hash+new hash", with "" for no file."""

    hashes: frozenset[str]
    may_be_absent: bool

    @classmethod
    def parse(cls, value: str) -> _Record:
        parts = value.split("+")
        return cls(frozenset(filter(None, parts)), "" in parts)


class OwnedFiles:
    """The document files of one scope, by their path in its directory."""

    def __init__(self, store: Store, scope: str, directory: Path, redact: Callable[[str], str]) -> None:
        self._store, self._scope, self.directory = store, scope, directory
        self._redact = redact
        self._known: dict[str, str] = {}
        self._handed_out: dict[str, tuple[str, int]] = {}  # file -> hash of the edit, revision at that time
        self._to_restore: set[str] = set()

    def load(self) -> None:
        """Reads what the store knows; to be called before a round of work."""
        self._known = self._store.projection_hashes(self._scope)

    @property
    def known(self) -> tuple[str, ...]:
        return tuple(self._known)

    @property
    def awaits_restoring(self) -> bool:
        return bool(self._to_restore)

    def read(self, file: str) -> bytes | None:
        return read_bytes(self.directory / file)

    def needs_writing(self, file: str, data: bytes, revision: int, *, restore_missing: bool) -> bool:
        """A file that is as it shall be needs nothing; one that a person deleted comes back when it is asked for, or
        when the store has gone on since the deletion was handed out."""
        present = self.read(file)
        if present is not None:
            return present != data or self._known.get(file) != content_hash(data)
        record = self._record(file)
        if record is None or record.may_be_absent:
            return True
        deleted_at = self._handed_out[file][1] if file in self._handed_out else revision
        return restore_missing or file in self._to_restore or revision > deleted_at

    def may_replace(self, file: str, revision: int, says_the_same: SaysTheSame) -> bool:
        """Whether what stands in the file is ours, empty, or known to the store already."""
        present = self.read(file)
        if present is None or not present.strip():
            return True
        digest = content_hash(present)
        record = self._record(file)
        if record and digest in record.hashes:
            return True
        edit, at_revision = self._handed_out.get(file, ("", 0))
        return (digest == edit and revision > at_revision) or says_the_same(present.decode("utf-8-sig", "replace"))

    def difference(self, file: str, data: bytes | None, says_the_same: SaysTheSame) -> str:
        """What is wrong with a file that shall hold `data` (None: shall not be there); "" when nothing is."""
        present, record = self.read(file), self._record(file)
        if present is None and data is not None:
            return "missing" if record is None or record.may_be_absent else "edited"
        if present is None or present == data:
            return ""
        if not present.strip() or (record is not None and content_hash(present) in record.hashes):
            return "stale"
        text = _readable(file, present)
        if text is None:
            return "unreadable"
        return "" if says_the_same(text) else "edited"

    def write(self, file: str, data: bytes) -> None:
        """Announces the new content first: a process that dies half-way leaves a file that is known to be ours."""
        digest = content_hash(data)
        self._set(file, f"{self._known.get(file, DELETED)}+{digest}")
        faults.reach("file.announced")
        write_file(self.directory / file, data)
        self._set(file, digest)
        self._settle(file)

    def remove(self, file: str) -> None:
        self._set(file, f"{self._known.get(file, DELETED)}+")
        remove_file(self.directory / file)
        self._set(file, None)
        self._settle(file)

    def restore(self, file: str) -> None:
        """The next round of writing puts this file back."""
        self._to_restore.add(file)

    def edited_text(self, file: str, revision: int, *, active: bool) -> str | None:
        """The text of an edited file, DELETED for one that is gone though the store has it, None when nothing in it is
        a person's. An empty file is no edit: it is put back from the store."""
        present = self.read(file)
        record = self._record(file)
        if present is None:
            if not active or record is None or record.may_be_absent or file in self._to_restore:
                return None
            self._handed_out[file] = (DELETED, revision)
            return DELETED
        if record and content_hash(present) in record.hashes:
            return None
        if not present.strip():
            log.warning("%s is empty: it is written again from the store", file)
            self.restore(file)
            return None
        text = _readable(file, present)
        if text is not None:
            present = self._without_secrets(file, text, present)
            self._handed_out[file] = (content_hash(present), revision)
            text = present.decode("utf-8-sig")
        return text

    def _without_secrets(self, file: str, text: str, present: bytes) -> bytes:
        """A secret that a person wrote into a file leaves the file too."""
        redacted = self._redact(text)
        if redacted == text:
            return present
        log.warning("%s was edited and held a secret: it is redacted", file)
        data = redacted.encode("utf-8")
        write_file(self.directory / file, data)
        return data

    def _record(self, file: str) -> _Record | None:
        return _Record.parse(self._known[file]) if file in self._known else None

    def _set(self, file: str, value: str | None) -> None:
        self._store.set_projection_hash(self._scope, file, value)
        if value is None:
            self._known.pop(file, None)
        else:
            self._known[file] = value

    def _settle(self, file: str) -> None:
        self._handed_out.pop(file, None)
        self._to_restore.discard(file)


def _readable(file: str, data: bytes) -> str | None:
    if len(data) > EDIT_LIMIT_BYTES:
        log.warning("%s was edited but holds %d bytes: it is left as it is", file, len(data))
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        log.warning("%s was edited but is not UTF-8: it is left as it is", file)
        return None
