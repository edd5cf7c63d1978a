"""Conversations with questions whose evidence is known: LoCoMo and MemoryBank, as they were published.

LoCoMo is licensed for non-commercial use: it is read from where it lies and nothing of it is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")  # some labels have typing errors: "D:11:26", "D30:05"


@dataclass(frozen=True)
class Said:
    id: str
    role: str
    text: str  # with the speaker's name before it
    session: str
    at: int  # epoch milliseconds


@dataclass(frozen=True)
class Question:
    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True)
class Fact:
    """What a model drew from a conversation when it was written down."""

    text: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One conversation with its questions."""

    name: str
    messages: tuple[Said, ...]
    questions: tuple[Question, ...]
    facts: tuple[Fact, ...] = ()


def data_sets(folder: Path) -> Iterator[tuple[str, list[Case]]]:
    """Whatever of the known sets lies in the folder."""
    for path in sorted((folder / "locomo").glob("locomo*.json")):
        cases = [_locomo_case(one) for one in json.loads(path.read_text(encoding="utf-8"))]
        yield "locomo", cases
        yield "locomo-merged", [merged(cases)]
        break  # other files there are the same conversations with other labels
    for language in ("cn", "en"):
        if (folder / "memorybank" / f"memory_bank_{language}.json").exists():
            yield f"memorybank-{language}", _memorybank_cases(folder / "memorybank", language)


def merged(cases: list[Case]) -> Case:
    """All conversations in one store, asked without a session: a larger haystack."""
    return Case(
        "merged",
        tuple(
            Said(f"{case.name}|{one.id}", one.role, one.text, f"{case.name}|{one.session}", one.at)
            for case in cases
            for one in case.messages
        ),
        tuple(
            Question(one.text, one.category, frozenset(f"{case.name}|{id}" for id in one.evidence))
            for case in cases
            for one in case.questions
        ),
        tuple(
            Fact(fact.text, tuple(f"{case.name}|{id}" for id in fact.sources)) for case in cases for fact in case.facts
        ),
    )


def _locomo_case(source: dict[str, Any]) -> Case:
    talk = source["conversation"]
    messages = []
    for number in range(1, 60):
        for turn in talk.get(f"session_{number}") or []:
            caption = f" [image: {turn['blip_caption'].strip()}]" if turn.get("blip_caption") else ""
            text = f"{turn['speaker']}: {(turn.get('text') or '').strip()}{caption}"
            role = "user" if turn["speaker"] == talk["speaker_a"] else "assistant"
            at = _instant(talk[f"session_{number}_date_time"])
            messages.append(Said(turn["dia_id"], role, text, f"s{number}", at))
    known = {one.id for one in messages}
    questions = [
        Question(one["question"], CATEGORIES[one["category"]], evidence)
        for one in source["qa"]
        if (evidence := frozenset(_ids(one.get("evidence")) & known))
    ]
    facts = [
        Fact(text, sources)
        for speakers in source.get("observation", {}).values()
        for stated in speakers.values()
        for text, *where in stated
        if (sources := tuple(sorted(_ids(where) & known)))
    ]
    return Case(source["sample_id"], tuple(messages), tuple(questions), tuple(facts))


def _memorybank_cases(folder: Path, language: str) -> list[Case]:
    histories = json.loads((folder / f"memory_bank_{language}.json").read_text(encoding="utf-8"))
    labels = json.loads((folder / f"evidence_{language}.json").read_text(encoding="utf-8"))
    cases = []
    for name, user in histories.items():
        messages: list[Said] = []
        for day, turns in user["history"].items():
            at = _milliseconds(datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC))
            for turn in turns:
                number = len(messages) // 2
                messages.append(Said(f"{number}u", "user", f"{name}: {turn['query'].strip()}", day, at))
                messages.append(Said(f"{number}a", "assistant", f"AI: {turn['response'].strip()}", day, at))
        questions = [
            Question(one["question"], one.get("category", "probe"), frozenset(one["evidence"]))
            for one in labels.get(name, [])
            if one["evidence"]
        ]
        cases.append(Case(name, tuple(messages), tuple(questions)))
    return cases


def _ids(labels: object) -> set[str]:
    return {f"D{int(session)}:{int(turn)}" for session, turn in _EVIDENCE.findall(json.dumps(labels))}


def _instant(text: str) -> int:
    return _milliseconds(datetime.strptime(text.upper(), "%I:%M %p ON %d %B, %Y").replace(tzinfo=UTC))


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
