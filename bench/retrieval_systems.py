"""The systems that are compared: our worker over its socket, our store with facts at hand, and plain FTS5."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import apsw
import psutil
import rjieba

from bench.latency import SocketConnection
from bench.retrieval_data import Case, Said
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.embedding.build import build_embedder
from memory_tencentdb_worker.models import (
    AtomChanges,
    AtomType,
    Due,
    NewAtom,
    NewMessage,
    NewTurn,
    Origin,
    Role,
    SessionState,
    Source,
)
from memory_tencentdb_worker.recall.answer import Recaller
from memory_tencentdb_worker.store.sqlite import open_store
from memory_tencentdb_worker.text.ids import atom_id
from memory_tencentdb_worker.text.stopwords import STOP_WORDS
from processes import WorkerProcess

QUIET = {
    "memory": {"pipeline": {"everyNConversations": 1_000_000, "enableWarmup": False, "l1IdleTimeoutSeconds": 86_400}}
}
NOW = 1_800_000_000_000
EMBEDDED_AT_ONCE = 32


class System(Protocol):
    name: str

    def add(self, case: Case) -> None: ...

    def search(self, case: Case, query: str, limit: int) -> list[str]:
        """Ids of messages, best first."""
        ...

    def cpu_ms(self) -> float:
        """Processor time spent so far."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Worker:
    """The product as a host sees it: turns go in by /capture, questions by /search/conversations."""

    def __init__(
        self, folder: Path, *, one_store: bool = False, dates: bool = True, name: str = "", embedding: str = "none"
    ) -> None:
        self.name = name or ("worker" if dates else "worker, dates unknown")
        self._embeds = embedding != "none"
        self._one_store = one_store
        self._dates = dates
        self._process = WorkerProcess(folder / "home", QUIET, {"TDAI_EMBEDDING_PROVIDER": embedding})
        self._ids: dict[str, dict[str, list[str]]] = {}

    def __enter__(self) -> Self:
        self._process.start()
        self._connection = SocketConnection(self._process.endpoint["socket"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._process.stop()

    def add(self, case: Case) -> None:
        texts = self._ids.setdefault(case.name, {})
        for one in case.messages:
            texts.setdefault(_squeezed(one.text), []).append(one.id)
        for turn in _turns(case):
            body = {
                "user_content": next((one.text for one in turn if one.role == "user"), ""),
                "assistant_content": next((one.text for one in turn if one.role == "assistant"), ""),
                "messages": [{"role": one.role, "content": one.text, **self._time(one)} for one in turn],
                "session_key": case.name,
                "session_id": turn[0].session,
            }
            self._connection.ask("POST", "/capture", body)
        while self._embeds and not self._embedded():
            time.sleep(0.5)

    def search(self, case: Case, query: str, limit: int) -> list[str]:
        body: dict[str, object] = {"query": query, "limit": limit}
        if not self._one_store:
            body["session_key"] = case.name
        answer = self._connection.ask("POST", "/search/conversations", body)
        found: dict[str, None] = {}
        for item in answer["items"]:
            ids = self._ids[case.name].get(_squeezed(item["text"]), [])
            found.update(dict.fromkeys([id for id in ids if id not in found][:1]))
        return list(found)

    def cpu_ms(self) -> float:
        """The embedder's process included."""
        return _cpu_ms(self._process.pid)

    def _embedded(self) -> bool:
        embedding = self._connection.ask("GET", "/v1/status", None)["embedding"]
        return bool(embedding["embedded"] == embedding["rows"])

    def _time(self, said: Said) -> dict[str, int]:
        return {"timestamp": said.at} if self._dates else {}


class StoreWithFacts:
    """The store in this process, with the data set's facts as atoms: what extraction adds to the messages' keys."""

    def __init__(self, folder: Path, *, embedding: str = "none") -> None:
        self.name = "store, facts as atoms" + ("" if embedding == "none" else f", {embedding}")
        self._store = open_store(folder / "data", NOW)
        self._ids: dict[str, str] = {}
        config = Config.model_validate({"memory": {"embedding": {"provider": embedding}}})
        self._embedder = build_embedder(config.memory.embedding)
        if self._embedder is not None:
            self._store.use_space(self._embedder.space)
        self._recaller = Recaller(self._store, config, UTC)
        self._recaller.use_embedder(self._embedder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recaller.close()
        if self._embedder is not None:
            self._embedder.close()
        self._store.close()

    def add(self, case: Case) -> None:
        stored: dict[str, str] = {}
        for number, turn in enumerate(_turns(case)):
            messages = tuple(NewMessage(Role(one.role), one.text, one.at, Origin(one.role)) for one in turn)
            new = NewTurn("", f"{case.name}-{number}", case.name, turn[0].session, messages, turn[0].at, "bench")
            receipt = self._store.add_turn(new, _nothing_due, NOW)
            stored.update(zip((one.id for one in turn), receipt.message_ids, strict=True))
        self._ids.update({id: name for name, id in stored.items()})
        hashes = {one.id: one.hash for one in self._store.messages_by_id(list(stored.values()))}
        for fact in case.facts:
            sources = tuple(Source(stored[name], hashes[stored[name]]) for name in fact.sources)
            identity = atom_id("", AtomType.EPISODIC, fact.text, [source.message_id for source in sources])
            atom = NewAtom(identity, AtomType.EPISODIC, fact.text, 50, "", Origin.USER, sources, case.name, "")
            self._store.add_atoms("", AtomChanges(add=(atom,)), _nothing_due, NOW)
        while self._embedder is not None and (texts := self._store.texts_to_embed(EMBEDDED_AT_ONCE)):
            vectors = self._embedder.embed([one.text for one in texts], kind="passage", timeout_seconds=60)
            self._store.put_vectors(list(zip(texts, vectors, strict=True)), "refused", NOW)

    def search(self, case: Case, query: str, limit: int) -> list[str]:
        answer = self._recaller.search_conversations(query, "", limit=limit, now=NOW, session_key=case.name)
        return [self._ids[item.id] for item in answer.items]

    def cpu_ms(self) -> float:
        return _cpu_ms(os.getpid())


class PlainFts:
    """FTS5 as most memories use it: the message alone, any word may match, bm25(). Chinese is cut into words."""

    def __init__(self, *, stemmed: bool) -> None:
        self.name = "plain FTS5, Porter, stop words" if stemmed else "plain FTS5"
        self._stemmed = stemmed
        self._connections: dict[str, apsw.Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def add(self, case: Case) -> None:
        connection = self._connections[case.name] = apsw.Connection(":memory:")
        tokenizer = "porter unicode61" if self._stemmed else "unicode61"
        connection.execute(f"create virtual table f using fts5(text, id unindexed, tokenize='{tokenizer}')")
        rows = [(" ".join(_words(one.text)), one.id) for one in case.messages]
        connection.executemany("insert into f(text, id) values (?, ?)", rows)

    def search(self, case: Case, query: str, limit: int) -> list[str]:
        words = _words(query)
        if self._stemmed:
            words = [word for word in words if word.lower() not in STOP_WORDS]
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
        sql = "select id from f where f match ? order by bm25(f) limit ?"
        return [row[0] for row in self._connections[case.name].execute(sql, (match, limit))] if match else []

    def cpu_ms(self) -> float:
        return time.process_time() * 1000


def _cpu_ms(pid: int) -> float:
    """Of a process and its children."""
    process = psutil.Process(pid)
    spent = [one.cpu_times() for one in (process, *process.children())]
    return sum(one.user + one.system for one in spent) * 1000


def _turns(case: Case) -> list[Sequence[Said]]:
    """Two messages each, as a host sends them; a turn never spans sessions."""
    turns: list[list[Said]] = []
    for one in case.messages:
        if turns and len(turns[-1]) == 1 and turns[-1][0].session == one.session and turns[-1][0].role != one.role:
            turns[-1].append(one)
        else:
            turns.append([one])
    return list(turns)


def _words(text: str) -> list[str]:
    return [word for word in rjieba.cut_for_search(text) if re.search(r"\w", word) and '"' not in word]


def _squeezed(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def _nothing_due(state: SessionState) -> Sequence[Due]:
    return ()
