"""Short queries in Chinese, Japanese and Korean: is the message that was meant among the first three?

All messages lie in one store, and no session is named. Beside the product, by words alone: FTS5 with the tokenizers
that come with SQLite.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw

from bench.report import Artefacts, publish
from bench.retrieval import measure
from bench.retrieval_data import Case, Question, Said
from bench.retrieval_systems import Worker

FOLDER = Path(__file__).with_name("short_queries")
LANGUAGES = {"zh": "好的，记住了。", "ja": "わかりました。", "ko": "네, 알겠어요."}
"""With the assistant's answer to each message."""

SESSION_MESSAGES = 12
BEGIN = 1_700_000_000_000
HOUR_MS = 3_600_000


def read_case() -> Case:
    messages: list[Said] = []
    questions: list[Question] = []
    for language, answer in LANGUAGES.items():
        lines = (FOLDER / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()
        for number, item in enumerate(map(json.loads, lines)):
            name, at = f"{language}{number}", BEGIN + len(messages) * HOUR_MS
            session = f"{language}-{number // SESSION_MESSAGES}"
            messages.append(Said(name, "user", item["text"], session, at))
            messages.append(Said(f"{name}-answer", "assistant", answer, session, at))
            questions += [Question(query, language, frozenset([name])) for query in item["queries"]]
    return Case("short", tuple(messages), tuple(questions))


class BuiltInFts:
    """The message as it is in FTS5, any word of the query may match, bm25()."""

    def __init__(self, tokenizer: str) -> None:
        self.name = f"FTS5 {tokenizer}"
        self._connection = apsw.Connection(":memory:")
        self._connection.execute(f"create virtual table f using fts5(text, id unindexed, tokenize='{tokenizer}')")

    def add(self, case: Case) -> None:
        rows = [(one.text, one.id) for one in case.messages]
        self._connection.executemany("insert into f(text, id) values (?, ?)", rows)

    def search(self, case: Case, query: str, limit: int) -> list[str]:
        match = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        sql = "select id from f where f match ? order by bm25(f) limit ?"
        return [id for (id,) in self._connection.execute(sql, (match, limit))]

    def cpu_ms(self) -> float:
        return time.process_time() * 1000

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embedding", choices=("none", "local"), default="none", help="local: also with the model")
    parser.add_argument("--out", type=Path, help="a new file for one JSON line a question and system")
    options = parser.parse_args()
    case = read_case()
    rows: list[tuple[str, object]] = []
    figures: dict[str, object] = {"questions": len(case.questions)}
    with tempfile.TemporaryDirectory() as folder, Artefacts(options.out) as artefacts:
        systems = [BuiltInFts("unicode61"), BuiltInFts("trigram"), Worker(Path(folder) / "words", one_store=True)]
        if options.embedding != "none":
            name = f"worker, {options.embedding}"
            systems.append(Worker(Path(folder) / "hybrid", one_store=True, name=name, embedding=options.embedding))
        for system in systems:
            with system:
                found = measure(system, [case], artefacts, "short")
            figures[system.name] = found
            shares = "  ".join(f"{group} {found[group]['R@3']:.3f}" for group in (*LANGUAGES, "main"))
            rows.append((system.name, f"{shares}  MRR {found['main']['MRR']:.3f}  {found['cpu_ms']:.1f} CPU ms"))
    publish("short", rows, figures)


if __name__ == "__main__":
    main()
