"""The rules of the offline mode on labelled sentences: precision and recall by language and by kind of sentence.

Two lists lie in bench/data: one to develop the rules with, and one that was written before they were run on it and is
never used to change them. Each line stands for a whole message of a user.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from bench.report import publish
from memory_tencentdb_worker.models import L1Batch, Message, NewAtom, Origin, Role
from memory_tencentdb_worker.offline.extract import extract_atoms
from memory_tencentdb_worker.text.ids import text_hash

DATA = Path(__file__).parent / "data"
PARTS = {"development": DATA / "offline_dev.txt", "held out": DATA / "offline_held_out.txt"}
ZONE = ZoneInfo("Europe/Berlin")
SAID_AT = round(datetime(2026, 3, 4, 10, 0, tzinfo=UTC).timestamp() * 1000)  # a Wednesday


@dataclass(frozen=True)
class Wanted:
    types: frozenset[str]
    words: tuple[str, ...]
    required: bool

    def is_met(self, atom: NewAtom) -> bool:
        text = atom.content.casefold()
        return str(atom.type) in self.types and all(word in text for word in self.words)


@dataclass(frozen=True)
class Sentence:
    language: str
    kind: str
    text: str
    wanted: tuple[Wanted, ...]


@dataclass
class Score:
    """`right` facts were wanted and taken, `wrong` ones taken and not wanted, `missed` ones wanted and not taken."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    sentences: int = 0
    faults: list[dict[str, Any]] = field(default_factory=list)

    @property
    def precision(self) -> float | None:
        """None where nothing was taken."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def recall(self) -> float | None:
        """None where there is nothing to take."""
        return self.right / (self.right + self.missed) if self.right + self.missed else None

    def count(self, sentence: Sentence, taken: Sequence[NewAtom]) -> None:
        self.sentences += 1
        wanted = [one for one in sentence.wanted if one.required]
        missed = [one for one in wanted if not any(one.is_met(atom) for atom in taken)]
        wrong = [atom for atom in taken if not any(one.is_met(atom) for one in sentence.wanted)]
        self.right += len(wanted) - len(missed)
        self.wrong += len(wrong)
        self.missed += len(missed)
        if missed or wrong:
            self.faults.append(
                {
                    "text": sentence.text,
                    "kind": sentence.kind,
                    "language": sentence.language,
                    "missed": [" & ".join(one.words) for one in missed],
                    "wrong": [f"{atom.type}: {atom.content}" for atom in wrong],
                }
            )


def read_sentences(path: Path) -> Iterator[Sentence]:
    """Lines `kind | sentence | type:word&word; ...` under a heading with the language; types may be joined by a bar, a
    leading question mark means that the fact may be taken or left."""
    language = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            language = line[3:].strip()
        elif line and not line.startswith("#"):
            kind, text, facts = re.split(r"\s\|(?:\s|$)", line, maxsplit=2)
            yield Sentence(
                language, kind, text.strip(), tuple(_wanted(part) for part in facts.split(";") if part.strip())
            )


def _wanted(text: str) -> Wanted:
    types, words = text.strip().lstrip("?").split(":", 1)
    required = not text.strip().startswith("?")
    return Wanted(frozenset(types.split("|")), tuple(word.strip().casefold() for word in words.split("&")), required)


def facts_of(text: str) -> list[NewAtom]:
    message = Message(
        seq=1,
        id="l0_1",
        scope="",
        turn_id="t_1",
        session_key="s",
        session_id="s",
        role=Role.USER,
        origin=Origin.USER,
        text=text,
        hash=text_hash(text),
        sent_at=SAID_AT,
        recorded_at=SAID_AT,
    )
    return extract_atoms(L1Batch("", "s", "s", (), (message,), ""), ZONE)


def scores(path: Path) -> dict[str, Score]:
    """By "all", by language, and by language and kind."""
    found: dict[str, Score] = {}
    for sentence in read_sentences(path):
        taken = facts_of(sentence.text)
        for name in ("all", sentence.language, f"{sentence.language} {sentence.kind}"):
            found.setdefault(name, Score()).count(sentence, taken)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write what was missed and what was wrongly taken, one JSON a line")
    options = parser.parse_args()
    figures: dict[str, dict[str, dict[str, float | None]]] = {}
    rows: list[tuple[str, object]] = []
    faults: list[dict[str, Any]] = []
    for part, path in PARTS.items():
        found = scores(path)
        faults += [{"part": part, **fault} for fault in found["all"].faults]
        figures[part] = {
            name: {"precision": _rounded(one.precision), "recall": _rounded(one.recall), "sentences": one.sentences}
            for name, one in found.items()
        }
        rows += [(f"{part}, {name}", _row(one)) for name, one in found.items()]
    publish("offline", rows, {"parts": figures})
    if options.out:
        lines = (json.dumps(fault, ensure_ascii=False) + "\n" for fault in faults)
        options.out.write_text("".join(lines), encoding="utf-8")


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 3)


def _row(one: Score) -> str:
    shares = [
        f"{name} {share:.2f}"
        for name, share in (("precision", one.precision), ("recall", one.recall))
        if share is not None
    ]
    return (
        f"{one.sentences:3} sentences, {one.right} right, {one.wrong} wrong, {one.missed} missed  {', '.join(shares)}"
    )


if __name__ == "__main__":
    main()
