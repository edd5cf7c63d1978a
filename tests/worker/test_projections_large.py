"""Readable files of large stores: in pieces, whole after an interruption, and only what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import Atom, Message
from memory_tencentdb_worker.store.projection_days import LinesFile
from memory_tencentdb_worker.store.projection_lines import ATOMS_AT_ONCE
from memory_tencentdb_worker.store.projections import Projector
from projection_parts import NOW, ZONE, Memory

DAY_MS = 86_400_000


class Watched:
    """The real store; notes what is read of it and fails after so many pieces."""

    def __init__(self, memory: Memory, *, fails_after: int = 1_000_000) -> None:
        self._memory, self._left = memory, fails_after
        self.pieces: list[int] = []
        self.spans: list[tuple[int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory.store, name)

    def messages_by_seq(self, seqs: Sequence[int]) -> list[Message]:
        if not self._left:
            raise StoreError("the disk is gone")
        self._left -= 1
        self.pieces.append(len(seqs))
        return self._memory.store.messages_by_seq(seqs)

    def atoms_between(self, scope: str, since: int, until: int, *, after_seq: int = 0, limit: int = -1) -> list[Atom]:
        if not after_seq:
            self.spans.append((since, until))
        return self._memory.store.atoms_between(scope, since, until, after_seq=after_seq, limit=limit)

    def projector(self) -> Projector:
        store: Any = self
        return Projector(store, self._memory.dir, ZONE, clock=lambda: NOW, messages_at_once=4)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path / "data")
    yield made
    made.store.close()


def days(memory: Memory) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (memory.dir / "conversations").iterdir()}


def test_an_empty_folder_is_filled_in_pieces(memory: Memory) -> None:
    for number in range(7):
        memory.say(f"question {number}", "yes", now=NOW + (number % 2) * DAY_MS)
    memory.refresh()
    whole = days(memory)
    for path in (memory.dir / "conversations").iterdir():
        path.unlink()
    watched = Watched(memory)
    watched.projector().refresh()
    assert days(memory) == whole
    assert watched.pieces == [4, 4, 4, 2]


def test_what_an_interruption_left_out_is_written_at_the_next_start(memory: Memory) -> None:
    for number in range(20):
        memory.say(f"question {number}", "yes", now=NOW + number * DAY_MS)
    with pytest.raises(StoreError):
        Watched(memory, fails_after=2).projector().refresh()
    memory.restart()
    memory.refresh()
    assert len(days(memory)) == 20
    assert memory.projector.differences() == []


def test_only_the_day_of_a_changed_fact_is_read_again(memory: Memory) -> None:
    old = memory.learn("Lives in Lisbon", memory.say("I live in Lisbon", "ok")[:1])
    memory.learn("Plays the cello", memory.say("I play", "ok")[:1], now=NOW + DAY_MS)
    watched = Watched(memory)
    projector = watched.projector()
    projector.refresh()
    watched.spans.clear()
    memory.learn("Lives in Braga", memory.say("Braga", "ok")[:1], supersedes=old, now=NOW + 2 * DAY_MS)
    projector.refresh()
    assert len(watched.spans) == 2, "the day of the ended fact and that of the new one"
    assert projector.differences() == []
    assert b"supersededAt" in (memory.dir / "records/2026-05-21.jsonl").read_bytes()


def test_a_day_of_many_facts_is_read_in_pieces_and_none_is_missed(memory: Memory) -> None:
    [source] = memory.say("I collect stamps", "ok")[:1]
    facts = [memory.learn(f"Has stamp {number}", [source]) for number in range(2 * ATOMS_AT_ONCE + 1)]
    memory.refresh()
    memory.learn("Sold stamp 7", [source], supersedes=facts[7])
    memory.refresh()
    lines = (memory.dir / "records/2026-05-21.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == len(facts) + 1
    assert memory.projector.differences() == []


@pytest.mark.parametrize(
    "present", [None, b"", b"one\n", b"one\nt", b"one\ntwo\n", b"one\ntwo\nmore\n", b"x", b"one\nX\n"]
)
def test_a_file_given_in_pieces_holds_these_whatever_it_held(tmp_path: Path, present: bytes | None) -> None:
    path = tmp_path / "day.jsonl"
    if present is not None:
        path.write_bytes(present)
    file = LinesFile(path)
    file.write(b"one\n")
    file.write(b"two\n")
    assert file.close() == 8
    assert path.read_bytes() == b"one\ntwo\n"
    assert [each.name for each in tmp_path.iterdir()] == ["day.jsonl"]
