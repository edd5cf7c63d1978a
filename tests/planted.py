"""Two hundred turns with planted facts, and what must be remembered of them: the table beside each turn.

`replaces` names the turn whose fact does not hold any more. Jokes, questions, small talk and what-ifs leave nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import apsw

from processes import ROOT, WorkerProcess

CONVERSATION = ROOT / "tests" / "data" / "conversation_200.jsonl"


@dataclass(frozen=True)
class Planted:
    """A memory that the conversation must leave behind."""

    turn: int
    words: tuple[str, ...]  # all of them stand in its text
    type: str
    start: str = ""  # ISO date of what happened, where the text names one
    replaces: int = 0


@dataclass(frozen=True)
class Turn:
    number: int
    session: str
    at: str
    user: str
    assistant: str
    memories: tuple[Planted, ...]

    @property
    def id(self) -> str:
        return f"turn-{self.number}"


@dataclass(frozen=True)
class Kept:
    """An atom as the database holds it."""

    id: str
    content: str
    type: str
    start: int | None
    superseded_by: str | None
    turns: frozenset[int]


def turns(limit: int | None = None) -> list[Turn]:
    rows = [json.loads(line) for line in CONVERSATION.read_text(encoding="utf-8").splitlines()]
    return [_turn(row) for row in rows[:limit]]


def sessions(said: Sequence[Turn]) -> Iterator[tuple[str, list[Turn]]]:
    for session, group in groupby(said, key=lambda turn: turn.session):
        yield session, list(group)


def tell(worker: WorkerProcess, said: Sequence[Turn]) -> None:
    """Session after session, everything read at the end of each."""
    for session, group in sessions(said):
        for turn in group:
            worker.capture(turn.user, turn.assistant, session=session, turn_id=turn.id, at=turn.at)
        flushed = worker.flush()
        assert flushed["idle"], flushed


def kept_atoms(data_dir: Path) -> list[Kept]:
    with closing(apsw.Connection(str(data_dir / "memory.db"), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        rows = connection.execute(
            "select a.id, a.content, a.type, a.activity_start, a.superseded_by, group_concat(m.turn_id, ' ')"
            " from atoms a join atom_sources s on s.atom = a.seq join messages m on m.seq = s.message"
            " group by a.seq order by a.seq"
        )
        return [Kept(*row[:5], frozenset(int(id.removeprefix("turn-")) for id in row[5].split())) for row in rows]


def differences(said: Sequence[Turn], kept: Sequence[Kept]) -> list[str]:
    """Every way in which what is kept is not what the table says."""
    planted = {memory.turn: memory for turn in said for memory in turn.memories}
    replaced_by = {memory.replaces: memory.turn for memory in planted.values() if memory.replaces}
    found: dict[int, Kept] = {}
    wrong: list[str] = []
    for atom in kept:
        origin = max(atom.turns)
        memory = planted.get(origin)
        if memory is None or origin in found:
            wrong.append(f"not in the table: {atom}")
            continue
        found[origin] = atom
        wrong += [
            f"turn {origin}: no {word!r} in {atom.content!r}" for word in memory.words if word not in atom.content
        ]
        if atom.type != memory.type:
            wrong.append(f"turn {origin}: {atom.type} instead of {memory.type}: {atom.content!r}")
        if atom.turns != _line_of(origin, planted):
            wrong.append(f"turn {origin}: rests on the turns {sorted(atom.turns)}")
        if memory.start and not _begins_on(atom.start, memory.start):
            wrong.append(f"turn {origin}: happened at {atom.start} instead of {memory.start}")
    for number, memory in planted.items():
        if number not in found:
            wrong.append(f"turn {number} is forgotten: {memory.words}")
            continue
        successor = found.get(replaced_by.get(number, 0))
        if found[number].superseded_by != (successor and successor.id):
            wrong.append(f"turn {number}: replaced by {found[number].superseded_by}")
    return wrong


def _line_of(turn: int, planted: dict[int, Planted]) -> frozenset[int]:
    """The turns that a fact rests on: its own and those of the facts that it replaced."""
    line = {turn}
    while planted[turn].replaces:
        turn = planted[turn].replaces
        line.add(turn)
    return frozenset(line)


def _begins_on(start: int | None, day: str) -> bool:
    """The worker of these tests lives in UTC; the turns were said in +08:00."""
    if start is None:
        return False
    wanted = datetime.fromisoformat(day).replace(tzinfo=UTC)
    return abs(datetime.fromtimestamp(start / 1000, UTC) - wanted) < timedelta(days=1)


def _turn(row: dict[str, Any]) -> Turn:
    memories = tuple(
        Planted(row["turn"], tuple(one["words"]), one["type"], one.get("start", ""), one.get("replaces", 0))
        for one in row["memories"]
    )
    return Turn(row["turn"], row["session"], row["at"], row["user"], row["assistant"], memories)
