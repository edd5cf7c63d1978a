"""The offline embedder: a small model in a child process, started with the first text and ended when idle.

In a process of its own a model cannot crash the worker, hold its interpreter or keep its memory.
"""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from memory_tencentdb_worker.child import ChildProcess, child_environment
from memory_tencentdb_worker.embedding.answers import unit_vector
from memory_tencentdb_worker.embedding.base import Vector
from memory_tencentdb_worker.embedding.local_models import LocalModel
from memory_tencentdb_worker.errors import EmbeddingTerminal, EmbeddingTransient
from memory_tencentdb_worker.models import EmbeddingSpace
from memory_tencentdb_worker.text.tokens import cut_to_chars, cut_to_tokens

CHILD_MODULE = "memory_tencentdb_worker.embedding.local_child"
READY_SECONDS = 30.0
IDLE_SECONDS = 600.0

TEXTS_AT_A_TIME = 2
"""A query waits for no more than this much of the background work (some 60 ms)."""

OVERDUE_BEFORE_END = 3
"""A child that was late so often in a row is frozen, not busy."""

log = logging.getLogger(__name__)


class LocalEmbedder:
    """Any thread may call; queries go before passages. `close` is final."""

    def __init__(
        self, model: LocalModel, max_input_chars: int, log_dir: Path | None, *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._model, self._max_input_chars, self._idle_seconds = model, max_input_chars, idle_seconds
        self._log = log_dir / "embedder.log" if log_dir else None
        self._turns = threading.Condition()  # guards the two below, and gives the child to one caller at a time
        self._taken = False
        self._waiting_queries = 0
        self._child: ChildProcess | None = None
        self._closed = threading.Event()
        self._ids = itertools.count(1)
        self._overdue = 0
        self._last_used = time.monotonic()

    @property
    def space(self) -> EmbeddingSpace:
        return self._model.space

    @property
    def pid(self) -> int | None:
        child = self._child
        return child.process.pid if child is not None and child.alive else None

    def embed(
        self, texts: Sequence[str], *, kind: Literal["query", "passage"], timeout_seconds: float
    ) -> list[Vector | None]:
        """Blank texts have no vector. For passages each small batch has the time for itself: there is no endpoint to
        be waited for, only work to be done."""
        cut = {place: self._cut(text) for place, text in enumerate(texts) if text.strip()}
        vectors: dict[int, Vector | None] = {}
        places = iter(cut)
        while batch := list(itertools.islice(places, TEXTS_AT_A_TIME)):
            with self._turn(kind, timeout_seconds) as deadline:
                raw = self._ask([cut[place] for place in batch], kind, deadline)
            vectors |= {place: unit_vector(one, self.space.dimensions) for place, one in zip(batch, raw, strict=True)}
        return [vectors.get(place) for place in range(len(texts))]

    def close(self) -> None:
        self._closed.set()
        child = self._child
        if child is not None:
            child.kill()  # whoever waits for it is told
        with self._turns:
            self._turns.wait_for(lambda: not self._taken, timeout=READY_SECONDS)
            self._end()

    def _cut(self, text: str) -> str:
        kept = cut_to_tokens(cut_to_chars(text, self._max_input_chars), self._model.most_tokens)
        return kept.encode("utf-8", "replace").decode()  # a lone surrogate cannot travel as UTF-8

    @contextmanager
    def _turn(self, kind: str, timeout_seconds: float) -> Iterator[float]:
        """Waits for the child to be free. Yields the deadline."""
        deadline = time.monotonic() + timeout_seconds
        query = kind == "query"
        with self._turns:
            self._waiting_queries += query
            free = self._turns.wait_for(
                lambda: not self._taken and (query or not self._waiting_queries), timeout=timeout_seconds
            )
            self._waiting_queries -= query
            if not free:
                raise EmbeddingTransient("the offline model is busy", code="timeout")
            self._taken = True
        try:
            yield deadline
        finally:
            with self._turns:
                self._taken = False
                self._last_used = time.monotonic()
                self._turns.notify_all()

    def _ask(self, texts: list[str], kind: str, deadline: float) -> list[object]:
        child = self._started()
        number = next(self._ids)
        child.send(json.dumps({"id": number, "texts": texts, "kind": kind}).encode() + b"\n")
        while (remaining := deadline - time.monotonic()) > 0:
            line = child.next_line(remaining)
            if line is None and time.monotonic() < deadline:
                code = self._end()
                if self._closed.is_set():
                    raise EmbeddingTransient("the offline model was closed", code="closed")
                raise EmbeddingTransient(f"the offline model died (exit code {code})", code="local_died")
            answer: dict[str, Any] = json.loads(line) if line else {}
            if answer.get("id") == number:  # else it belongs to a call that was given up
                self._overdue = 0
                return list(answer["vectors"])
        self._overdue += 1
        if self._overdue >= OVERDUE_BEFORE_END:
            self._end()
        raise EmbeddingTransient("the offline model did not answer in time", code="timeout")

    # ------------------------------------------------------------------ the child, for whoever has the turn

    def _started(self) -> ChildProcess:
        """Starting is waited for beyond the caller's deadline: the next one finds it done."""
        if self._closed.is_set():
            raise EmbeddingTransient("the offline model is closed", code="closed")
        if self._child is not None and self._child.alive:
            return self._child
        self._end()
        child = self._child = ChildProcess(CHILD_MODULE, [self.space.model], _environment(), self._log)
        line = child.next_line(READY_SECONDS)
        error = json.loads(line)["error"] if line else "its process did not start"
        if error:
            self._end()
            raise EmbeddingTerminal(f"the offline model cannot be loaded: {error}", code="local_broken")
        self._overdue, self._last_used = 0, time.monotonic()
        threading.Thread(target=self._retire, args=(child,), name="embedder-idle", daemon=True).start()
        return child

    def _end(self) -> int | None:
        child, self._child = self._child, None
        return child.end() if child is not None else None

    def _retire(self, child: ChildProcess) -> None:
        """Ends an idle child. One thread a child, gone with it."""
        wait_seconds = self._idle_seconds
        while not child.ended.wait(max(wait_seconds, 0.05)):
            with self._turns:
                wait_seconds = self._last_used + self._idle_seconds - time.monotonic()
                if wait_seconds <= 0 and not self._taken:
                    if self._child is child:
                        self._end()
                    return


def _environment() -> dict[str, str]:
    """One thread: more of them spin while they wait, which costs ten times the work on a busy machine."""
    return child_environment() | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
