"""What a memory costs: tokens of every layer for a fixed conversation of a hundred turns, and for each fact kept.

Tokens are counted as the scripted endpoint counts them, one for four characters; with `--endpoint` as that one does.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

import fake_openai
from bench.report import publish
from planted import differences, kept_atoms, tell, turns
from processes import WorkerProcess

LAYERS = ("l1-extraction", "l1-reconcile", "l2-scenes", "l3-persona")


@dataclass(frozen=True)
class Cost:
    calls: int
    tokens_in: int
    tokens_out: int

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", default="", help="base URL of another scripted endpoint")
    parser.add_argument("--turns", type=int, default=100, choices=range(10, 201, 10), metavar="N")
    options = parser.parse_args()
    said = turns(options.turns)
    with _endpoint(options.endpoint) as url, tempfile.TemporaryDirectory() as folder:
        worker = WorkerProcess(Path(folder) / "home", {"llm": {"baseUrl": url, "apiKey": "none", "model": "scripted"}})
        worker.start()
        try:
            tell(worker, said)
            data_dir = Path(worker.endpoint["data_dir"])
            kept, costs = kept_atoms(data_dir), _costs(data_dir)
        finally:
            worker.stop()
    wrong = differences(said, kept)
    facts = len(kept)
    total = sum(cost.tokens for cost in costs.values())
    rows: list[tuple[str, object]] = [
        (task, f"{cost.calls} calls, {cost.tokens_in} + {cost.tokens_out} tokens, {cost.tokens / facts:.0f} a fact")
        for task, cost in costs.items()
    ]
    rows.append(("all layers", f"{total} tokens for {facts} facts, {total / facts:.0f} a fact"))
    rows.append(("not as the table says", len(wrong)))
    rows += [("", line) for line in wrong]
    layers = {task: vars(cost) for task, cost in costs.items()}
    figures = {"turns": len(said), "facts": facts, "wrong": len(wrong), "tokens": total, "layers": layers}
    publish("tokens", rows, {**figures, "tokens_per_fact": round(total / facts, 1)})


@contextmanager
def _endpoint(url: str) -> Iterator[str]:
    if url:
        yield url
        return
    with fake_openai.running() as fake:
        yield fake.url


def _costs(data_dir: Path) -> dict[str, Cost]:
    with closing(apsw.Connection(str(data_dir / "memory.db"), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        rows = connection.execute(
            "select task, count(*), sum(tokens_in), sum(tokens_out) from calls where tokens_in > 0 group by task"
        )
        found = {task: Cost(calls, tokens_in, tokens_out) for task, calls, tokens_in, tokens_out in rows}
    return {task: found.get(task, Cost(0, 0, 0)) for task in LAYERS}


if __name__ == "__main__":
    main()
