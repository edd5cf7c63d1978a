"""Collects the candidates of one recall or search: by words from the store, and by meaning when there is an embedder.

Both arms run side by side. What is late or failed is named in `arms`; what came in time is used.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from typing import TypeVar

from memory_tencentdb_worker.errors import Busy, EmbeddingError, StoreError
from memory_tencentdb_worker.models import (
    NO_PREFERENCE,
    Atom,
    AtomHit,
    Filter,
    Message,
    MessageHit,
    Persona,
    Preference,
    Scene,
)
from memory_tencentdb_worker.recall.arms import ArmPool
from memory_tencentdb_worker.recall.deadline import Deadline
from memory_tencentdb_worker.recall.past import read_past
from memory_tencentdb_worker.recall.query_vector import QueryEmbedder
from memory_tencentdb_worker.recall.scene_lines import SceneLine, find_scene_lines
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.segment import query_terms

log = logging.getLogger(__name__)

T = TypeVar("T")

TAIL_MESSAGES = 100
"""How much of what L1 has not read yet is told apart from older messages; the schedule keeps it far shorter."""

EMBEDDER_SHARE = 0.6
VECTOR_SHARE = 0.85
"""Parts of the deadline after which the embedder, and the vector arm as a whole, are no longer waited for."""

POOL_SIZE = 32


@dataclass
class WordFinds:
    """Filled step by step by the word arm: when it is late, what is there already still counts."""

    instructions: list[Atom] = field(default_factory=list)
    atoms: list[AtomHit] = field(default_factory=list)
    messages: list[MessageHit] = field(default_factory=list)
    tail: list[MessageHit] = field(default_factory=list)
    persona: Persona | None = None
    scenes: list[Scene] = field(default_factory=list)
    scene_lines: list[SceneLine] = field(default_factory=list)


@dataclass(frozen=True)
class VectorFinds:
    atoms: tuple[AtomHit, ...] = ()
    messages: tuple[MessageHit, ...] = ()


@dataclass
class Finds:
    words: WordFinds
    vectors: VectorFinds
    arms: dict[str, object]


@dataclass(frozen=True)
class Wanted:
    """What to look for. `query` "" asks for the stable part only."""

    query: str
    scope: str
    session_id: str
    limit: int
    enough: int  # with this many finds older messages, which only fill up, are not looked for
    use_vectors: bool = True
    prefer_vectors: bool = False  # words count only when the vector arm has no answer, and for the unread tail
    prefer: Preference = NO_PREFERENCE
    superseded: bool = False  # atoms that are no longer true count too
    as_of: int | None = None  # only what was known then
    max_scenes: int = 0  # of the scenes as of then

    @property
    def seen(self) -> Filter:
        return Filter(self.scope, as_of=self.as_of)


class Gatherer:
    """Owns the threads of the arms. One for each service; thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._word_pool = ArmPool("recall-words", POOL_SIZE)
        self._vector_pool = ArmPool("recall-vectors", POOL_SIZE // 4)

    def gather(
        self, wanted: Wanted, embedder: QueryEmbedder | None, embedder_seconds: float | None, deadline: Deadline
    ) -> Finds:
        """Raises StoreError when the store failed, Busy when no thread is free; a late store gives partial finds."""
        arms: dict[str, object] = {}
        finds = WordFinds()
        vector_arm = self._start_vectors(wanted, embedder, embedder_seconds, deadline, arms)
        word_arm = self._word_pool.start(_timed(lambda: self._find_by_words(wanted, finds)))
        _await_words(word_arm, deadline, arms)
        found = WordFinds(**vars(finds))  # a late arm may still write into its own copy
        vectors = _await_vectors(vector_arm, deadline, arms)
        if vectors is not None and wanted.prefer_vectors:
            found.atoms, found.messages = [], []
        return Finds(found, vectors or VectorFinds(), arms)

    def close(self) -> None:
        self._word_pool.close()
        self._vector_pool.close()

    def _find_by_words(self, wanted: Wanted, finds: WordFinds) -> None:
        store, scope = self._store, wanted.scope
        if wanted.query:
            held = store.quarantined(scope)
            finds.instructions = store.standing_instructions(scope, wanted.as_of)
            seen = replace(wanted.seen, superseded=wanted.superseded)
            finds.atoms = store.search_atoms(wanted.query, seen, wanted.limit)
            finds.tail = _recallable(self._find_tail(wanted), held)
            fresh = [hit for hit in finds.tail if not spoken_in(hit.message, wanted.session_id)]
            if len(finds.atoms) + len(fresh) < wanted.enough:
                said = replace(wanted.seen, prefer=wanted.prefer)
                finds.messages = _recallable(store.search_messages(wanted.query, said, wanted.limit), held)
        if wanted.as_of is not None:
            past = read_past(store, scope, wanted.as_of, wanted.max_scenes)
            finds.persona, finds.scenes = past.persona, list(past.scenes)
        else:
            finds.persona, finds.scenes = store.persona(scope), store.scenes(scope)
        if wanted.query and finds.scenes:
            terms, then = query_terms(wanted.query), wanted.as_of is not None
            finds.scene_lines = find_scene_lines(store, scope, finds.scenes, terms, as_of=then)

    def _find_tail(self, wanted: Wanted) -> list[MessageHit]:
        """Matching messages that L1 has not read yet: what was said a moment ago must not wait for the schedule."""
        unread = {message.id: message.seq for message in self._store.unextracted(wanted.scope, TAIL_MESSAGES)}
        if not unread:
            return []
        recent = replace(wanted.seen, after_seq=min(unread.values()) - 1, prefer=wanted.prefer)
        hits = self._store.search_messages(wanted.query, recent, wanted.limit)
        return [hit for hit in hits if hit.message.id in unread]

    def _start_vectors(
        self,
        wanted: Wanted,
        embedder: QueryEmbedder | None,
        embedder_seconds: float | None,
        deadline: Deadline,
        arms: dict[str, object],
    ) -> Future[tuple[VectorFinds, float]] | None:
        if embedder is None or not wanted.use_vectors or not wanted.query:
            return None
        if embedder.paused():
            arms["vectors"] = {"state": "paused"}
            return None
        share = deadline.share_seconds(EMBEDDER_SHARE)
        seconds = share if embedder_seconds is None else min(share, embedder_seconds)
        try:
            return self._vector_pool.start(_timed(lambda: self._find_by_vector(wanted, embedder, seconds)))
        except Busy:
            arms["vectors"] = {"state": "busy"}
            return None

    def _find_by_vector(self, wanted: Wanted, embedder: QueryEmbedder, seconds: float) -> VectorFinds:
        filter, space = wanted.seen, embedder.space
        vector = embedder.embed(wanted.query, seconds, self._store.speakers(filter))
        atoms = self._store.nearest_atoms(vector, filter, wanted.limit, space)
        preferring = replace(filter, prefer=wanted.prefer)
        messages = self._store.nearest_messages(vector, preferring, wanted.limit, space, query=wanted.query)
        return VectorFinds(tuple(atoms), tuple(_recallable(messages, self._store.quarantined(wanted.scope))))


def _recallable(hits: Iterable[MessageHit], held: Collection[int]) -> list[MessageHit]:
    """Without what waits in the quarantine."""
    return [hit for hit in hits if hit.message.seq not in held]


def spoken_in(message: Message, session_id: str) -> bool:
    """Whether the asking session has said this itself; "" is no session."""
    return bool(session_id) and message.session_id == session_id


def _timed(work: Callable[[], T]) -> Callable[[], tuple[T, float]]:
    def run() -> tuple[T, float]:
        started = time.perf_counter()
        value = work()
        return value, round((time.perf_counter() - started) * 1000, 2)

    return run


def _await_words(arm: Future[tuple[None, float]], deadline: Deadline, arms: dict[str, object]) -> None:
    try:
        _, elapsed_ms = arm.result(timeout=deadline.left_seconds())
        arms["words"] = {"state": "ok", "ms": elapsed_ms}
    except FutureTimeout:
        arms["words"] = {"state": "late"}


def _await_vectors(
    arm: Future[tuple[VectorFinds, float]] | None, deadline: Deadline, arms: dict[str, object]
) -> VectorFinds | None:
    """None when there is no vector arm, or it is late or failed: the words answer alone."""
    if arm is None:
        return None
    try:
        finds, elapsed_ms = arm.result(timeout=deadline.until_share_seconds(VECTOR_SHARE))
    except FutureTimeout:
        arms["vectors"] = {"state": "late"}
        return None
    except (EmbeddingError, StoreError) as error:
        log.warning("search by meaning failed (%s), words answer alone", error.code)
        arms["vectors"] = {"state": "failed", "code": error.code}
        return None
    arms["vectors"] = {"state": "ok", "ms": elapsed_ms}
    return finds
