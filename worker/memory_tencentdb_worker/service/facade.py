"""MemoryService: every use of the memory, one method each. Thread-safe: any request thread may call any method."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, replace
from datetime import tzinfo
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from memory_tencentdb import faults, protocol, wire
from memory_tencentdb.paths import user_id
from memory_tencentdb.redaction import Redactor
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.embedding.base import Embedder
from memory_tencentdb_worker.errors import InvalidInput, StoreError
from memory_tencentdb_worker.layers.l0_turns import capture_turn
from memory_tencentdb_worker.layers.memory_write import write_memory
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import Writer
from memory_tencentdb_worker.recall.answer import Question, Recaller
from memory_tencentdb_worker.recall.deadline import Deadline
from memory_tencentdb_worker.service.arguments import (
    atom_type,
    instant_of,
    optional_session,
    scope_of,
    search_limit,
    session_of,
    shown,
)
from memory_tencentdb_worker.service.calls import CallsWanted, call_report
from memory_tencentdb_worker.service.check import check_part
from memory_tencentdb_worker.service.facts import WorkerFacts
from memory_tencentdb_worker.service.flush import Flusher
from memory_tencentdb_worker.service.history import Rollback, compare_revisions, list_revisions, roll_back
from memory_tencentdb_worker.service.inspection import Inspection, inspect_rows
from memory_tencentdb_worker.service.redaction import without_secrets
from memory_tencentdb_worker.service.scene_view import scene_document
from memory_tencentdb_worker.service.status import StatusBoard
from memory_tencentdb_worker.service.store_watch import StoreWatch
from memory_tencentdb_worker.service.trace import FormerAtom, trace
from memory_tencentdb_worker.service.why_not import explain_absence
from memory_tencentdb_worker.store.base import Store

if TYPE_CHECKING:
    from memory_tencentdb_worker.pipeline.loop import Pipeline

log = logging.getLogger(__name__)

SHORTEST_DEADLINE_MS = 10
LONGEST_DEADLINE_MS = 60_000
QUIET_SECONDS = 60
MOST_EXCLUDED_IDS = 10_000


class MemoryService:
    """Built once by the composition root. `on_host_model` is called with a host's own model when the configuration
    names none; `on_stop` when somebody asked the worker to leave; `rebuild_files` writes the projections anew."""

    def __init__(
        self,
        store: Store,
        config: Config,
        zone: tzinfo,
        clock: Callable[[], int],
        pipeline: Pipeline,
        *,
        facts: WorkerFacts,
        rebuild_files: Callable[[], int],
        on_host_model: Callable[[wire.HostModel], None],
        on_stop: Callable[[], None],
        redactor: Redactor,
    ) -> None:
        self._store, self._config, self._zone, self._clock = store, config, zone, clock
        self._redactor = redactor
        self._pipeline, self._facts = pipeline, facts
        self._rebuild_files, self._on_host_model, self._on_stop = rebuild_files, on_host_model, on_stop
        self._recaller = Recaller(store, config, zone)
        self._flusher = Flusher(store, pipeline, clock)
        self._board = StatusBoard(
            store, config, zone, clock, pipeline, facts=facts, query_trouble=self._recaller.embedder_trouble
        )
        self._data_dir_id = store.data_dir_id
        self._offer: tuple[str, ...] | None = None
        self._llm: LLM | None = None
        self._embedder: Embedder | None = None
        self._offer_lock = threading.Lock()
        self._last_request = time.monotonic()
        self._former: FormerAtom | None = None
        self._listener: Callable[[wire.CaptureRequest, wire.CaptureResponse], None] | None = None
        self._writers: dict[int, Writer] = {}  # requests that are at a write, by their threads

    # ---- what the composition root tells
    def use_llm(self, llm: LLM | None, source: str = "") -> None:
        """The extraction model from now on; `source` is "config" or "host". None: offline mode."""
        self._llm = llm
        self._board.use_llm(llm, source)
        self._pipeline.use_llm(llm)

    def use_embedder(self, embedder: Embedder | None, problem: str = "", former: Embedder | None = None) -> None:
        """The embedder from now on; `problem` says why there is none although one is configured. `former` is asked
        while the store still answers from its space."""
        self._embedder = embedder
        self._recaller.use_embedder(embedder, former)
        self._board.use_embedder(embedder, problem)
        self._pipeline.use_embedder(embedder)

    def use_listener(
        self, listener: Callable[[wire.CaptureRequest, wire.CaptureResponse], None], unfinished: Callable[[], str]
    ) -> None:
        """Told of every stored turn; `unfinished` says why a forgetting has not ended."""
        self._listener, self._board.unfinished = listener, unfinished

    def use_former(self, find: FormerAtom) -> None:
        """Where `why` looks for an id that is not in use any more."""
        self._former = find

    def close(self) -> None:
        """Ends waiting flushes and the threads of recall. Safe to call twice."""
        self._flusher.stop()
        self._recaller.close()

    # ---- life
    def touch(self) -> None:
        """A request came in."""
        self._last_request = time.monotonic()

    def idle_seconds(self) -> float:
        """Since the last request."""
        return time.monotonic() - self._last_request

    @property
    def state(self) -> str:
        """As last assessed; never waits."""
        return self._board.state

    @property
    def watch(self) -> StoreWatch:
        return self._board.watch

    def is_quiet(self) -> bool:
        """Nobody has asked for a minute and nothing is to be done."""
        try:
            return self.idle_seconds() > QUIET_SECONDS and self._store.idle()
        except StoreError:
            return False  # trouble is no time for extra work; whoever meets it next reports it

    def writers(self) -> list[Writer]:
        """Everybody who is at a write now, in front of the store or in it."""
        inside = self._store.facts().writer
        return [*self._writers.copy().values(), *([] if inside is None else [inside])]

    def state_is_stale(self) -> bool:
        return self._board.stale()

    def refresh_state(self) -> str:
        return self._board.refresh()

    def health(self) -> dict[str, Any]:
        """Touches neither store nor lock, so that it answers whatever the others wait for."""
        state = self._board.state
        return {
            "status": "ok" if state in ("ok", "lagging") else "degraded",
            "version": protocol.VERSION,
            "uptime": max(0, (self._clock() - self._facts.started_at) // 1000),
            "stores": {"vectorStore": state != "broken", "embeddingService": self._board.vectors_ready},
            "state": state,
            "protocol": protocol.PROTOCOL,
            "data_dir_id": self._data_dir_id,
            "pid": os.getpid(),
        }

    def hello(self, request: wire.HelloRequest) -> wire.HelloResponse:
        """The handshake. The client decides from the answer whether it wants this worker."""
        self._consider(request.host_model)
        return wire.HelloResponse(
            protocol=protocol.PROTOCOL,
            version=protocol.VERSION,
            data_dir_id=self._data_dir_id,
            data_dir=str(self._facts.data_dir),
            pid=os.getpid(),
            uid=user_id(),
            state=self._board.refresh(),
        )

    def request_stop(self) -> None:
        log.info("asked to stop")
        self._on_stop()

    # ---- turns
    def capture(self, request: wire.CaptureRequest) -> wire.CaptureResponse:
        """The answer means durable. Raises InvalidInput, StoreError, StoreFull."""
        request = without_secrets(request, self._redactor)
        with self._writing():
            answer = capture_turn(request, self._store, self._config, self._zone, self._clock())
        self._pipeline.wake()
        self._hear(request, answer)
        faults.reach("capture.before_reply")
        return answer

    def memory_write(self, request: wire.MemoryWriteRequest) -> wire.MemoryWriteResponse:
        """Mirrors a write of the host's own memory."""
        clean = without_secrets(request, self._redactor)
        with self._writing():
            answer = write_memory(clean, self._store, self._config, self._zone, self._clock())
        self._pipeline.wake()
        return answer

    def session_end(self, request: wire.SessionEndRequest) -> wire.SessionEndResponse:
        """A hint: what this session still waits for is due now. May come twice, early, or never."""
        request = without_secrets(request, self._redactor)
        scope, session_key = scope_of(request.user_id), session_of(request.session_key)
        with self._writing():
            jobs = self._store.make_due(self._clock(), scope=scope, session_key=session_key, expedite=False)
        self._pipeline.wake()
        return wire.SessionEndResponse(flushed=True, jobs=jobs)

    def flush(self, request: wire.FlushRequest) -> wire.FlushResponse:
        answer = self._flusher.flush(without_secrets(request, self._redactor))
        return answer if answer.idle else replace(answer, reasons=self._board.reasons())

    # ---- questions
    def recall(self, request: wire.RecallRequest, *, spent_ms: float = 0) -> wire.RecallResponse:
        """Answers within `deadline_ms`, of which `spent_ms` passed before. Raises InvalidInput, StoreError, Busy."""
        request = without_secrets(request, self._redactor)
        scope, session_key = scope_of(request.user_id), session_of(request.session_key)
        settings = self._config.memory.recall
        deadline = Deadline(_deadline_ms(request.deadline_ms, settings.timeout_ms), spent_ms=spent_ms)
        if request.max_tokens is not None and request.max_tokens < 0:
            raise InvalidInput("max_tokens must not be negative")
        if len(request.exclude_ids) > MOST_EXCLUDED_IDS:
            raise InvalidInput(f"exclude_ids holds more than {MOST_EXCLUDED_IDS} ids")
        if not settings.enabled or self._excluded(session_key):
            return _nothing_recalled(request, deadline, self._board.state)
        as_of = instant_of(request.as_of, "as_of", self._zone)
        question = Question(
            query=request.query,
            scope=scope,
            session_id=request.session_id,
            now=self._clock() if as_of is None else as_of,
            max_tokens=request.max_tokens,
            exclude_ids=tuple(request.exclude_ids),
            visible_since=request.visible_since,
            as_of=as_of,
        )
        return self._recaller.recall(question, self._board.state, deadline)

    def search_memories(self, request: wire.MemorySearchRequest) -> wire.SearchResponse:
        """`session_id` names who asks; it is no filter."""
        request = without_secrets(request, self._redactor)
        as_of = instant_of(request.as_of, "as_of", self._zone)
        answer = self._recaller.search_memories(
            request.query,
            scope_of(request.user_id),
            limit=search_limit(request.limit),
            now=self._clock() if as_of is None else as_of,
            type=atom_type(request.type),
            scene=request.scene,
            as_of=as_of,
        )
        return replace(answer, state=self._board.state, as_of=shown(as_of, self._zone))

    def search_conversations(self, request: wire.ConversationSearchRequest) -> wire.SearchResponse:
        request = without_secrets(request, self._redactor)
        as_of = instant_of(request.as_of, "as_of", self._zone)
        answer = self._recaller.search_conversations(
            request.query,
            scope_of(request.user_id),
            limit=search_limit(request.limit),
            now=self._clock() if as_of is None else as_of,
            session_key=optional_session(request.session_key),
            as_of=as_of,
        )
        return replace(answer, state=self._board.state, as_of=shown(as_of, self._zone))

    # ---- the owner's view
    def why(self, item_id: str, scope: str | None = None) -> wire.WhyResponse:
        """Raises NotFound."""
        return trace(item_id, self._store, self._zone, scope, former=self._former)

    def why_not(self, request: wire.WhyNotRequest) -> wire.WhyNotResponse:
        """Raises NotFound, InvalidInput, StoreError."""
        request = without_secrets(request, self._redactor)
        question = Question(
            query=request.query,
            scope=scope_of(request.user_id),
            session_id=request.session_id,
            now=self._clock(),
            max_tokens=request.max_tokens,
            exclude_ids=tuple(request.exclude_ids),
        )
        recalls = self._config.memory.recall.enabled and not self._excluded(request.session_key)
        return explain_absence(request.id, question, self._recaller, self._store, recalls=recalls)

    def status(self) -> dict[str, Any]:
        return self._board.document()

    def calls(self, wanted: CallsWanted) -> dict[str, Any]:
        """Raises InvalidInput."""
        return call_report(wanted, self._store, self._zone, self._clock())

    def parked(self) -> list[dict[str, Any]]:
        return self._board.parked()

    def inspect(self, wanted: Inspection) -> dict[str, Any]:
        most = self._config.memory.persona.max_scenes
        return inspect_rows(wanted, self._store, self._zone, self._clock(), most)

    def scene(self, name: str, scope: str | None = None) -> dict[str, Any]:
        """Raises NotFound."""
        return scene_document(name, self._store, self._zone, scope)

    def history(self, name: str, user_id: str) -> dict[str, Any]:
        """Raises NotFound."""
        return list_revisions(name, scope_of(user_id), self._store, self._zone)

    def diff(self, name: str, user_id: str, before: int | None, after: int | None) -> dict[str, Any]:
        """Raises NotFound."""
        return compare_revisions(name, scope_of(user_id), before, after, self._store)

    def roll_back(self, request: wire.RollbackRequest) -> dict[str, Any]:
        """Raises NotFound, InvalidInput, StoreError."""
        most = self._config.memory.persona.max_scenes
        wanted = Rollback(request.name, request.revision, scope_of(request.user_id), request.dry_run, most)
        if request.dry_run:
            return roll_back(wanted, self._store, self._clock())
        with self._writing():
            done = roll_back(wanted, self._store, self._clock())
        self._pipeline.wake()
        return done

    def rebuild(self) -> dict[str, Any]:
        """Writes all Markdown and JSONL files anew from the store."""
        return {"files": self._rebuild_files()}

    def check(self, part: str) -> dict[str, Any]:
        """Asks the model ("llm") or the embedder ("embedding") once. Raises InvalidInput."""
        return check_part(part, self._llm, self._embedder)

    # ---- inside
    def _hear(self, request: wire.CaptureRequest, answer: wire.CaptureResponse) -> None:
        """The turn is stored: what it asks for beyond that does not make its answer fail."""
        if self._listener is None:
            return
        try:
            self._listener(request, answer)
        except StoreError as error:
            log.warning("whether a turn asks to forget something could not be noted: %s", error)

    def _consider(self, offered: wire.HostModel | None) -> None:
        """Hands on a host's model once: every session of the host offers it anew."""
        if offered is None or not offered.model or self._config.llm.model or self._config.llm.offline:
            return
        offer = astuple(offered)
        with self._offer_lock:
            if offer != self._offer:
                self._on_host_model(offered)
                self._offer = offer

    def _excluded(self, session_key: str) -> bool:
        return any(fnmatchcase(session_key, pattern) for pattern in self._config.memory.capture.exclude_agents)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A store that cannot write is seen in the state from now on until a write succeeds again, and no longer. The
        state is looked up here and not in recall, which must not wait for the store."""
        thread = threading.get_native_id()
        self._writers[thread] = Writer(thread, time.monotonic())
        try:
            yield
        except StoreError as error:
            self._board.note_store_error(error, writing=True)
            self._board.refresh()
            raise
        finally:
            self._writers.pop(thread, None)
        self._board.note_store_success(writing=True)
        self._board.refresh()


def _deadline_ms(asked: int | None, configured: int) -> int:
    wanted = configured if asked is None else asked
    return min(max(wanted, SHORTEST_DEADLINE_MS), LONGEST_DEADLINE_MS)


def _nothing_recalled(request: wire.RecallRequest, deadline: Deadline, state: str) -> wire.RecallResponse:
    """Recall is switched off, altogether or for this session."""
    receipt = wire.Receipt(
        budget_tokens=request.max_tokens or 0,
        used_tokens=0,
        given=[],
        dropped=[],
        deadline_ms=deadline.limit_ms,
        elapsed_ms=round(deadline.elapsed_ms(), 2),
        arms={},
    )
    return wire.RecallResponse("", "none", 0, "", "", [], receipt, state)
