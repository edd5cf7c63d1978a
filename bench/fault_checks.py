"""What must be true of a home after everything has come to rest, whatever was killed before.

The database is looked at in a copy, through plain SQL where the product's own reading could hide something, and through
the product where two ways to the same result have to agree (the files, and the same files made anew elsewhere).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

import apsw

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.store.projections import Projector
from memory_tencentdb_worker.store.sqlite import open_store

PROJECTED = ("conversations", "records", "scene_blocks", "persona.md", ".metadata/scene_index.json")


@dataclass
class Findings:
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    inconsistent: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.duplicated or self.inconsistent or self.leaked)

    def lines(self) -> Iterator[str]:
        for kind, texts in vars(self).items():
            for text in texts:
                yield f"{kind}: {text}"


def check_home(data_dir: Path, outbox: Path, acknowledged: Sequence[str], findings: Findings) -> None:
    """The worker must have left."""
    if not (data_dir / "memory.db").exists():
        findings.lost.append(f"no database for {len(acknowledged)} turns")
        return
    with _copied(data_dir) as copy:
        connection = apsw.Connection(str(copy / "memory.db"))
        try:
            _check_turns(connection, acknowledged, findings)
            _check_facts(connection, findings)
            _check_database(connection, findings)
        finally:
            connection.close()
        _check_files(data_dir, copy, findings)
    _check_outbox(outbox, findings)


def _check_turns(connection: apsw.Connection, acknowledged: Sequence[str], findings: Findings) -> None:
    """Each acknowledged turn has its two messages once. Others, cut off before their return, at most once."""
    texts = [str(row[0]) for row in connection.execute("select text from messages where origin <> 'owner_edit'")]
    for marker in acknowledged:
        found = sum(marker in text for text in texts)
        if found < 2:
            findings.lost.append(f"turn {marker}: {found} of 2 messages")
    for text in {text for text in texts if texts.count(text) > 1}:
        findings.duplicated.append(f"message {text!r} {texts.count(text)} times")
    torn = connection.execute(
        "select turn_id, count(*) from messages where origin <> 'owner_edit' group by turn_id having count(*) <> 2"
    ).fetchall()
    findings.inconsistent += [f"turn {turn} holds {count} messages" for turn, count in torn]


def _check_facts(connection: apsw.Connection, findings: Findings) -> None:
    """Each stored user message has given one live fact, which stands in one scene line and one persona line."""
    said = [str(row[0]) for row in connection.execute("select text from messages where role = 'user'")]
    atoms = connection.execute("select content, superseded_at from atoms").fetchall()
    scenes = [str(row[0]) for row in connection.execute("select sections from scene_revisions where newest = 1")]
    row = connection.execute("select sections from persona_revisions order by revision desc limit 1").fetchone()
    persona = str(row[0]) if row else ""
    for text in said:
        marker = next(word for word in text.split() if word.endswith("q"))
        live = sum(marker in content for content, gone in atoms if gone is None)
        if live != 1:
            (findings.duplicated if live else findings.lost).append(f"fact {marker}: {live} live atoms")
        if any(marker in content for content, gone in atoms if gone is not None):
            findings.inconsistent.append(f"fact {marker} was superseded by nothing newer")
        in_scenes, in_persona = sum(scene.count(marker) for scene in scenes), persona.count(marker)
        if (in_scenes, in_persona) != (1, 1):
            findings.inconsistent.append(f"fact {marker}: {in_scenes} lines in scenes, {in_persona} in the persona")


def _check_database(connection: apsw.Connection, findings: Findings) -> None:
    def number(sql: str) -> int:
        return int(connection.execute(sql).fetchone()[0])

    for pragma in ("integrity_check", "foreign_key_check"):
        rows = connection.execute(f"pragma {pragma}").fetchall()
        if rows not in ([], [("ok",)]):
            findings.inconsistent.append(f"{pragma}: {rows[:3]}")
    pairs = (
        ("messages", "select count(*) from messages", "select count(*) from messages_fts"),
        ("keys of messages", "select count(*) from messages", "select count(*) from message_keys"),
        ("atoms", "select count(*) from atoms", "select count(*) from atoms_fts"),
        (
            "vectors",
            "select (select count(*) from messages) + (select count(*) from atoms where superseded_at is null)",
            "select count(*) from embeddings where refused = 0",
        ),
        ("leases", "select 0", "select count(*) from jobs where leased_until is not null"),
        ("texts without a vector", "select 0", "select count(*) from embed_queue"),
        ("parked", "select 0", "select count(*) from parked where resolved_at is null"),
    )
    for name, wanted, found in pairs:
        if number(wanted) != number(found):
            findings.inconsistent.append(f"{name}: {number(found)} instead of {number(wanted)}")


def _check_files(data_dir: Path, copy: Path, findings: Findings) -> None:
    """The projections equal those that the same database gives in an empty directory."""
    try:
        store = open_store(copy, 0)
        try:
            Projector(store, copy, UTC).rebuild()
        finally:
            store.close()
    except StoreError as error:
        findings.inconsistent.append(f"the files cannot be made anew: {error}")
        return
    there, anew = _projected(data_dir), _projected(copy)
    for name in sorted(there.keys() | anew.keys()):
        if there.get(name) != anew.get(name):
            findings.inconsistent.append(f"{name} differs from the database")
    litter = [str(path.relative_to(data_dir)) for path in data_dir.rglob("*.tmp")]
    if litter:
        findings.leaked.append(f"temporary files: {litter}")


def _projected(directory: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for name in PROJECTED:
        path = directory / name
        found = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
        files |= {str(one.relative_to(directory)): one.read_bytes() for one in found if not one.name.startswith(".")}
    return files


def _check_outbox(outbox: Path, findings: Findings) -> None:
    """Nothing waits, nothing was refused. A line that was being written when its process died may have been set aside:
    its sync_turn never returned."""
    for path in outbox.glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "torn" not in line:
                findings.inconsistent.append(f"left in {path.name}: {line[:120]}")
    litter = [path.name for path in outbox.glob("*") if path.suffix in {".tmp", ".done"}]
    if litter:
        findings.leaked.append(f"in the outbox: {litter}")


@contextmanager
def _copied(data_dir: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mtf-copy-") as folder:
        for path in data_dir.glob("memory.db*"):
            shutil.copy2(path, folder)
        yield Path(folder)
