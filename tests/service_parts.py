"""Parts for tests of recall, service and API: memories made by hand, a clock, a pipeline that only keeps notes,
and the real application served by a real uvicorn on a real Unix socket."""

from __future__ import annotations

import http.client
import json
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

import uvicorn

from memory_tencentdb.redaction import Redactor
from memory_tencentdb.wire import HostModel
from memory_tencentdb_worker.api.app import build_app
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.models import (
    Atom,
    AtomChanges,
    AtomType,
    EmbeddingSpace,
    Message,
    NewAtom,
    NewMessage,
    NewTurn,
    Origin,
    Role,
    Source,
)
from memory_tencentdb_worker.service import MemoryService, WorkerFacts
from memory_tencentdb_worker.store.sqlite import SqliteStore
from memory_tencentdb_worker.text.ids import atom_id, text_hash

MARCH_5 = 1_772_705_400_000
"""2026-03-05T10:10:00Z."""

DAY_MS = 86_400_000


class Clock:
    def __init__(self, now: int = MARCH_5) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def make_message(
    number: int, text: str, *, role: Role = Role.USER, session_id: str = "s", at: int = MARCH_5
) -> Message:
    return Message(
        seq=number, id=f"l0_{number:016x}", scope="", turn_id=f"t{number}", session_key="k", session_id=session_id,
        role=role, origin=Origin(role), text=text, hash=text_hash(text), sent_at=at, recorded_at=at,
    )  # fmt: skip


def make_atom(
    number: int,
    content: str,
    *,
    sources: Sequence[str] = (),
    priority: int = 70,
    type: AtomType = AtomType.PERSONA,
    at: int = MARCH_5,
    activity_start: int | None = None,
) -> Atom:
    return Atom(
        seq=number, id=f"m_{number:016x}", scope="", type=type, content=content, priority=priority, scene_name="",
        origin=Origin.USER, extractor="model:test", session_key="k", session_id="s", activity_start=activity_start,
        activity_end=None, valid_from=at, valid_to=None, recorded_from=at, superseded_at=None, superseded_by=None,
        sources=tuple(Source(source, "") for source in sources),
    )  # fmt: skip


def say(
    store: SqliteStore, *texts: str, session_key: str = "k", session_id: str = "", scope: str = "",
    turn_id: str = "", at: int = MARCH_5,
) -> tuple[str, ...]:  # fmt: skip
    """Stores a turn: the user's text, then the assistant's. Returns the ids of its messages."""
    roles = (Role.USER, Role.ASSISTANT)
    messages = tuple(NewMessage(role, text, at, Origin(role)) for role, text in zip(roles, texts, strict=False) if text)
    turn = NewTurn(scope, turn_id or f"turn-{time.monotonic_ns()}", session_key, session_id, messages, at, "test")
    return store.add_turn(turn, lambda _state: [], at).message_ids


def learn(
    store: SqliteStore, content: str, source: str, *, type: AtomType = AtomType.PERSONA, priority: int = 70,
    scene_name: str = "", scope: str = "", now: int = MARCH_5,
) -> str:  # fmt: skip
    """Stores an atom that rests on one message. Returns its id."""
    message = store.message(scope, source)
    assert message is not None
    atom = NewAtom(
        id=atom_id(scope, type, content, [source]), type=type, content=content, priority=priority,
        scene_name=scene_name, origin=message.origin, sources=(Source(source, message.hash),),
        session_key=message.session_key, session_id=message.session_id,
    )  # fmt: skip
    store.add_atoms(scope, AtomChanges(add=(atom,), extractor="model:test"), lambda _state: [], now)
    return atom.id


@dataclass
class PauseNote:
    code: str
    message: str
    since: int | None = MARCH_5
    action: str = "do something"


@dataclass
class QuietPipeline:
    """Runs no job; says what a test tells it to say."""

    woken: int = 0
    pauses: list[PauseNote] = field(default_factory=list)
    breakers: dict[str, str] = field(default_factory=lambda: {"llm": "closed", "embedding": "closed"})
    llm: Any = None
    embedder: Any = None

    def wake(self) -> None:
        self.woken += 1

    def ask_again(self) -> None:
        """There is no endpoint."""

    def use_llm(self, llm: Any) -> None:
        self.llm = llm

    def use_embedder(self, embedder: Any) -> None:
        self.embedder = embedder

    def files_current(self) -> bool:
        return True

    def pause_reasons(self) -> list[PauseNote]:
        return self.pauses

    def breaker_states(self) -> dict[str, str]:
        return self.breakers

    def last_error(self, kind: str) -> str:
        return ""

    def last_ok_at(self, kind: str) -> int | None:
        return None


class WordEmbedder:
    """Texts that share a topic word have the same vector; everything else is at a right angle to it."""

    topics = ("pet", "travel", "food")
    meanings = {  # noqa: RUF012 - a constant
        "dog": "pet", "puppy": "pet", "lisbon": "travel", "trip": "travel", "journey": "travel", "dinner": "food",
    }  # fmt: skip

    def __init__(self, *, delay_seconds: float = 0.0, error: Exception | None = None) -> None:
        self.delay_seconds, self.error, self.calls = delay_seconds, error, 0
        self.space = EmbeddingSpace("fake", "words", len(self.topics) + 1)

    def embed(self, texts: Sequence[str], *, kind: str, timeout_seconds: float) -> list[list[float] | None]:
        self.calls += 1
        if self.delay_seconds:
            time.sleep(self.delay_seconds)
        if self.error is not None:
            raise self.error
        return [self._vector(text) for text in texts]

    def close(self) -> None:
        return None

    def _vector(self, text: str) -> list[float]:
        found = {topic for word, topic in self.meanings.items() if word in text.lower()}
        weights = [1.0 if topic in found else 0.0 for topic in self.topics]
        weights.append(0.0 if found else 1.0)
        length = sum(weight * weight for weight in weights) ** 0.5
        return [weight / length for weight in weights]


def embed_all(store: SqliteStore, embedder: WordEmbedder) -> None:
    store.use_space(embedder.space)
    texts = store.texts_to_embed(1000)
    vectors = embedder.embed([one.text for one in texts], kind="passage", timeout_seconds=5)
    store.put_vectors(list(zip(texts, vectors, strict=True)), "", MARCH_5)


@dataclass
class Built:
    """A service over a real store, and what it told the composition root."""

    service: MemoryService
    store: SqliteStore
    pipeline: QuietPipeline
    clock: Clock
    offered: list[HostModel]
    stops: list[bool]


def build_service(
    store: SqliteStore, folder: Path, *, config: Config | None = None, pipeline: Any = None, clock: Any = None,
    **facts: Any,
) -> Built:  # fmt: skip
    clock, pipeline = clock or Clock(), pipeline or QuietPipeline()
    offered: list[HostModel] = []
    stops: list[bool] = []
    service = MemoryService(
        store, config or Config(), UTC, clock, pipeline,
        facts=WorkerFacts(
            home=folder, data_dir=folder / "data", socket=str(folder / "x.sock"), pid=1, started_at=clock(), **facts
        ),
        rebuild_files=lambda: 7,
        on_host_model=offered.append,
        on_stop=lambda: stops.append(True),
        redactor=Redactor(b"k" * 32),
    )  # fmt: skip
    return Built(service, store, pipeline, clock, offered, stops)


@contextmanager
def served(service: MemoryService) -> Iterator[Caller]:
    """Serves the application on a Unix socket (in a folder with a short name) until the block ends."""
    with tempfile.TemporaryDirectory(prefix="mt-") as folder:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"{folder}/w.sock")
        server = uvicorn.Server(uvicorn.Config(build_app(service), log_config=None, http="httptools", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="test-server")
        thread.start()
        try:
            deadline = time.monotonic() + 10
            while not server.started and time.monotonic() < deadline:
                time.sleep(0.01)
            assert server.started
            yield Caller(Path(folder) / "w.sock")
        finally:
            server.should_exit = True
            thread.join(10)
            listener.close()
            service.close()


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=15)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Caller:
    """Speaks HTTP over the Unix socket, one connection a request."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def post(self, path: str, body: Any = None, **fields: Any) -> Answer:
        return self.send("POST", path, json.dumps(fields if body is None else body).encode())

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, *, chunked: bool = False
    ) -> Answer:
        connection = _Connection(self.path)
        try:
            with suppress(BrokenPipeError):  # refused while it is sent: the answer says why
                connection.request(
                    method, path, body, headers or {"content-type": "application/json"}, encode_chunked=chunked
                )
            response = connection.getresponse()
            text = response.read().decode()
            return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, text)
        finally:
            connection.close()
