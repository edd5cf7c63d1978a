"""What is found: share of the labelled messages among the first 5, 10 and 20, on public conversations.

Turns go in by /capture and questions by /search/conversations of a real worker. LoCoMo's adversarial questions ask for
what the other speaker said; as usual they are no part of "main". `--held-out` runs the same on a second folder, `--out`
writes what each question found.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.report import Artefacts, publish
from bench.retrieval_data import Case, data_sets
from bench.retrieval_systems import PlainFts, StoreWithFacts, System, Worker

DEPTH = 20
DEPTHS = (3, 5, 10, 20)


def score(ranked: Sequence[str], evidence: frozenset[str]) -> dict[str, float]:
    places = [place for place, one in enumerate(ranked[:DEPTH], 1) if one in evidence]
    shares = {f"R@{depth}": sum(place <= depth for place in places) / len(evidence) for depth in DEPTHS}
    return {**shares, "MRR": 1 / places[0] if places else 0.0}


def measure(system: System, cases: Sequence[Case], artefacts: Artefacts, name: str) -> dict[str, Any]:
    """Means by kind of question; each answer goes to the artefacts, under the name of the set."""
    scores: dict[str, list[dict[str, float]]] = defaultdict(list)
    for case in cases:
        system.add(case)
    before = system.cpu_ms()
    asked = 0
    for case in cases:
        for question in case.questions:
            ranked = system.search(case, question.text, DEPTH)
            found = score(ranked, question.evidence)
            artefacts.add(
                set=name, system=system.name, case=case.name, kind=question.category, question=question.text,
                evidence=sorted(question.evidence), ranked=ranked, **found,
            )  # fmt: skip
            asked += 1
            scores[question.category].append(found)
            if question.category != "adversarial":
                scores["main"].append(found)
    spent = (system.cpu_ms() - before) / asked
    return {"cpu_ms": round(spent, 2), **{group: _mean(rows) for group, rows in scores.items()}}


def _mean(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {key: round(sum(row[key] for row in rows) / len(rows), 4) for key in rows[0]}


@contextmanager
def systems(name: str, cases: Sequence[Case], embedding: str) -> Iterator[list[System]]:
    with tempfile.TemporaryDirectory() as folder:
        one_store = name.endswith("merged")
        chosen: list[System] = [
            PlainFts(stemmed=False),
            PlainFts(stemmed=True),
            Worker(Path(folder) / "dated", one_store=one_store),
        ]
        if name.startswith("locomo"):
            chosen.append(Worker(Path(folder) / "undated", one_store=one_store, dates=False))
        if embedding != "none":
            chosen.append(
                Worker(Path(folder) / "hybrid", one_store=one_store, name=f"worker, {embedding}", embedding=embedding)
            )
        if any(case.facts for case in cases) and not one_store:
            chosen.append(StoreWithFacts(Path(folder) / "facts"))
            if embedding != "none":
                chosen.append(StoreWithFacts(Path(folder) / "facts-hybrid", embedding=embedding))
        yield chosen


def row(figures: dict[str, Any]) -> str:
    main = figures["main"]
    parts = [
        " / ".join(f"{100 * main[key]:.1f}" for key in ("R@5", "R@10", "R@20")),
        f"MRR {main['MRR']:.3f}",
        f"{figures['cpu_ms']:.1f} CPU ms",
    ]
    groups = sorted(group for group in figures if group not in ("main", "cpu_ms"))
    parts.append(" ".join(f"{group} {100 * figures[group]['R@10']:.1f}" for group in groups))
    return "  ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with locomo/ and memorybank/")
    parser.add_argument("--held-out", type=Path, help="a second folder of the same kind")
    parser.add_argument("--only", help="data sets whose name holds this")
    parser.add_argument(
        "--embedding", choices=("none", "local"), default="none", help="local: also with the offline model"
    )
    parser.add_argument("--out", type=Path, help="a new file for one JSON line a question and system")
    options = parser.parse_args()
    rows: list[tuple[str, object]] = []
    figures: dict[str, Any] = {}
    with Artefacts(options.out) as artefacts:
        for part, folder in (("development", options.data), ("held out", options.held_out)):
            for name, cases in data_sets(folder) if folder else ():
                if options.only and options.only not in name:
                    continue
                with systems(name, cases, options.embedding) as chosen:
                    for system in chosen:
                        with system:
                            found = measure(system, cases, artefacts, f"{part} {name}")
                        figures.setdefault(part, {}).setdefault(name, {})[system.name] = found
                        rows.append((f"{part} {name}: {system.name}", row(found)))
    publish("retrieval", rows or [("nothing", "the folder holds none of the known sets")], figures)


if __name__ == "__main__":
    main()
