"""How capture and keyword search grow with the store: processor time, disk and memory at each size.

The store runs in this process. Words are drawn with the frequencies of a natural language (Zipf), so that a question
holds frequent and rare ones; each question is made of words of one message and asks for it. The hard ones are made of
words of which each stands in one to fifteen messages of a hundred. A million messages take a quarter of an hour.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import psutil

from bench.report import percentiles, publish
from memory_tencentdb_worker.models import Due, Filter, NewMessage, NewTurn, Origin, Role, SessionState
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store

NOW = 1_800_000_000_000
WORDS = 50_000
SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in ("a", "e", "i", "o", "u", "an", "er")]
TURNS_PER_SESSION = 25
FREQUENT = slice(20, 400)
HARD_WORDS = 6


class Speech:
    """Sentences of 34 words and 168 characters on average, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words = [self._spelled(number) for number in range(WORDS)]
        self._frequent = frozenset(self._words[FREQUENT])
        self._steps = list(accumulate(1 / (rank + 3) for rank in range(WORDS)))

    def message(self) -> list[str]:
        return [self._word() for _ in range(self._random.randint(8, 60))]

    def question(self, message: Sequence[str]) -> str:
        return " ".join(self._random.sample(list(message), min(6, len(message))))

    def hard_question(self, message: Sequence[str]) -> str:
        """ "" when the message has too few frequent words."""
        words = [word for word in dict.fromkeys(message) if word in self._frequent]
        return " ".join(words[:HARD_WORDS]) if len(words) >= HARD_WORDS else ""

    def _word(self) -> str:
        return self._words[bisect(self._steps, self._random.random() * self._steps[-1])]

    def _spelled(self, number: int) -> str:
        spelled = ""
        while number or not spelled:
            number, digit = divmod(number, len(SYLLABLES))
            spelled += SYLLABLES[digit]
        return spelled


def fill(store: SqliteStore, speech: Speech, turns: range) -> Iterator[tuple[float, list[str]]]:
    """Processor milliseconds of each capture, and what was said."""
    for number in turns:
        said, answered = speech.message(), speech.message()
        messages = (
            NewMessage(Role.USER, " ".join(said), NOW + number, Origin.USER),
            NewMessage(Role.ASSISTANT, " ".join(answered), NOW + number, Origin.ASSISTANT),
        )
        session = f"s{number // TURNS_PER_SESSION}"
        turn = NewTurn("", f"t{number}", session, session, messages, NOW + number, "bench")
        started = time.process_time()
        store.add_turn(turn, _nothing_due, NOW + number)
        yield (time.process_time() - started) * 1000, said


def measure(store: SqliteStore, folder: Path, speech: Speech, said: Sequence[list[str]], asked: int) -> dict[str, Any]:
    """Search times over all sessions, and whether the message asked for was among the first ten."""
    messages = random.Random(7).sample(list(said), min(asked, len(said)))
    usual = [(speech.question(message), message) for message in messages]
    hard = [(question, message) for message in messages if (question := speech.hard_question(message))]
    figures = {**_ask(store, usual, ""), **_ask(store, hard, "hard_")}
    store.checkpoint()
    size = sum(path.stat().st_size for path in folder.glob("memory.db"))
    return {
        **figures,
        "bytes_per_message": round(size / store.counts().messages),
        "rss_mib": round(psutil.Process().memory_info().rss / 2**20, 1),
    }


def _ask(store: SqliteStore, questions: Sequence[tuple[str, list[str]]], kind: str) -> dict[str, Any]:
    spent, waited, found = [], [], 0
    for question, message in questions:
        processor, wall = time.process_time(), time.perf_counter()
        hits = store.search_messages(question, Filter(""), 10)
        spent.append((time.process_time() - processor) * 1000)
        waited.append((time.perf_counter() - wall) * 1000)
        found += any(hit.message.text == " ".join(message) for hit in hits)
    return {
        f"{kind}search_cpu_ms": percentiles(spent),
        f"{kind}search_wall_ms": percentiles(waited),
        f"{kind}found": round(found / len(questions), 3),
    }


def _nothing_due(state: SessionState) -> Sequence[Due]:
    return ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,10000,100000", help="messages in the store, ascending")
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    rows: list[tuple[str, object]] = []
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        store, speech = open_store(folder, NOW), Speech(1)
        said: list[list[str]] = []
        for size in map(int, options.sizes.split(",")):
            captured = []
            for spent, message in fill(store, speech, range(len(said), size // 2)):
                captured.append(spent)
                said.append(message)
            found = {
                "capture_cpu_ms": percentiles(captured[-1000:]),
                **measure(store, folder, speech, said, options.queries),
            }
            figures[str(size)] = found
            rows += [(f"{size} messages: {label}", value) for label, value in found.items()]
        store.close()
    publish("scale", rows, figures)


if __name__ == "__main__":
    main()
