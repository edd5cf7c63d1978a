"""Answers recall and both searches: gather, rank, pack, render."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from memory_tencentdb.wire import RecallResponse, Receipt, SearchResponse
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.embedding.base import Embedder, Vector
from memory_tencentdb_worker.errors import EmbeddingError, StoreError
from memory_tencentdb_worker.models import AtomType, EmbeddingSpace, Filter, Scene
from memory_tencentdb_worker.recall.deadline import Deadline
from memory_tencentdb_worker.recall.gather import Finds, Gatherer, Wanted
from memory_tencentdb_worker.recall.pack import Limits, Pack, pack
from memory_tencentdb_worker.recall.past import read_past
from memory_tencentdb_worker.recall.query_vector import QueryEmbedder
from memory_tencentdb_worker.recall.rank import (
    Candidate,
    Ranking,
    atom_candidates,
    fused,
    message_candidates,
    preferred,
    rank,
)
from memory_tencentdb_worker.recall.render import item_of, scene_item, search_text, stable_part
from memory_tencentdb_worker.recall.scene_choice import choose_lines
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.cues import asks_for_past, read_preference
from memory_tencentdb_worker.text.segment import match_expression, query_terms, shorten_query
from memory_tencentdb_worker.text.times import iso_local

log = logging.getLogger(__name__)

ASSEMBLED = "As of {}, put together now from what had been said by then:"

CANDIDATES_PER_RESULT = 3
ENOUGH_PER_RESULT = 2
MOST_DROPPED_NAMED = 50
MOST_KNOWN_SKIPPED = 60
"""In a long session the best hits have been given long ago, or are its own: so many more are looked for."""

SEARCH_THRESHOLD_SHARE = 0.5
"""Whoever searches judges the hits; what recall gives goes into every later request. Half of the messages asked for
that share no word with the question score below 0.3."""

FEWEST_ADDED_UP = 200
"""So many of either arm are looked at, so that a hit far down in both may be the best of all (R@20 on LoCoMo's
development half 88.1 with 60, 88.7 with 200)."""

SEARCH_EMBEDDING_SECONDS = 1.5
"""A search waits for the embedder no longer than this; the model that called the tool waits with it."""

NearestOf = Callable[[Vector, int, EmbeddingSpace], list[Candidate]]


@dataclass(frozen=True)
class Question:
    """One recall, checked."""

    query: str
    scope: str
    session_id: str
    now: int
    max_tokens: int | None = None
    exclude_ids: tuple[str, ...] = ()
    visible_since: int | None = None  # epoch ms; what the session said from then on stands before the model
    as_of: int | None = None  # answers from what was known and valid then; `now` is this instant too


@dataclass(frozen=True)
class Recalled:
    """One recall with everything that was looked at on the way."""

    terms: list[str]
    wanted: Wanted
    finds: Finds
    ranking: Ranking
    packed: Pack
    budget_tokens: int


class Recaller:
    """Thread-safe. `use_embedder` may be called at any time."""

    def __init__(self, store: Store, config: Config, zone: tzinfo) -> None:
        self._store = store
        self._config = config
        self._zone = zone
        self._gatherer = Gatherer(store)
        self._embedder: QueryEmbedder | None = None
        self._former: QueryEmbedder | None = None

    def use_embedder(self, embedder: Embedder | None, former: Embedder | None = None) -> None:
        """`former` is asked while the store still answers from its space."""
        limit = self._config.memory.embedding.max_input_chars
        self._former = None if former is None else QueryEmbedder(former, limit)
        self._embedder = None if embedder is None else QueryEmbedder(embedder, limit)

    def embedder_trouble(self) -> str:
        """Why questions are answered by words alone although there is an embedder, "" when it answers."""
        embedder = self._asked_embedder()
        return embedder.trouble if embedder is not None else ""

    def close(self) -> None:
        self._gatherer.close()

    def recall(self, question: Question, state: str, deadline: Deadline) -> RecallResponse:
        """Answers within the deadline, with what was found by then. Raises StoreError when the store failed.

        A query without a letter or digit gives the stable part alone.
        """
        done = self.trace(question, deadline)
        finds, packed = done.finds, done.packed
        stable = stable_part(finds.words.persona, finds.words.scenes)
        if stable and question.as_of is not None:
            stable = f"{ASSEMBLED.format(iso_local(question.as_of, self._zone))}\n\n{stable}"
        receipt = Receipt(
            budget_tokens=done.budget_tokens,
            used_tokens=packed.tokens,
            given=list(packed.receipts),
            dropped=list(packed.dropped[:MOST_DROPPED_NAMED]),
            deadline_ms=deadline.limit_ms,
            elapsed_ms=round(deadline.elapsed_ms(), 2),
            arms=finds.arms,
        )
        return RecallResponse(
            context="\n\n".join(part for part in (stable, packed.text) if part),
            strategy=_strategy(finds),
            memory_count=len(packed.given),
            append_system_context=stable,
            prepend_context=packed.text,
            items=[item_of(one, self._zone, done.terms) for one in packed.given],
            receipt=receipt,
            state=state,
            as_of=None if question.as_of is None else iso_local(question.as_of, self._zone),
            assembled=question.as_of is not None,
        )

    def trace(self, question: Question, deadline: Deadline) -> Recalled:
        """The recall with all its candidates, before it is rendered."""
        settings = self._config.memory.recall
        query = shorten_query(question.query)
        asked = query if match_expression(query) else ""
        sees_its_own = question.session_id and question.visible_since is not None
        known = MOST_KNOWN_SKIPPED if sees_its_own else min(len(question.exclude_ids), MOST_KNOWN_SKIPPED)
        wanted = Wanted(
            query=asked,
            scope=question.scope,
            session_id=question.session_id,
            limit=settings.max_results * CANDIDATES_PER_RESULT + known,
            enough=settings.max_results * ENOUGH_PER_RESULT + known,
            use_vectors=settings.strategy != "keyword",
            prefer_vectors=settings.strategy == "embedding",
            prefer=read_preference(asked, question.now, self._zone),
            superseded=asks_for_past(asked),
            as_of=question.as_of,
            max_scenes=self._config.memory.persona.max_scenes,
        )
        finds = self._gatherer.gather(wanted, self._asked_embedder(), self._embedder_seconds(), deadline)
        terms = query_terms(asked)
        ranking = rank(
            finds,
            terms=terms,
            session_id=question.session_id,
            threshold=settings.score_threshold,
            limit=settings.max_results,
            exclude=question.exclude_ids,
            prefer=wanted.prefer,
            visible_since=question.visible_since,
        )
        lines = choose_lines(
            finds.words,
            ranking,
            limit=settings.max_results,
            session_id=question.session_id,
            exclude=question.exclude_ids,
            visible_since=question.visible_since,
        )
        ranking = replace(ranking, lines=lines)
        tokens = settings.max_tokens if question.max_tokens is None else question.max_tokens
        limits = Limits(tokens, settings.max_chars_per_memory, settings.max_total_recall_chars)
        return Recalled(terms, wanted, finds, ranking, pack(ranking, terms, limits, self._zone), tokens)

    def search_memories(
        self,
        query: str,
        scope: str,
        *,
        limit: int,
        now: int,
        type: AtomType | None = None,
        scene: str | None = None,
        as_of: int | None = None,
    ) -> SearchResponse:
        """Atoms that are no longer true are among the answers only when the question asks for the past; with `as_of`
        they are those that were known and true then. `scene` is part
        of a scene name. When it names a scene of the index, that scene itself comes first, so that whatever the context
        mentions can be read."""
        query = shorten_query(query)
        seen = Filter(scope, type=type, scene=scene or None, superseded=asks_for_past(query), as_of=as_of)
        prefer = read_preference(query, now, self._zone)
        found, strategy = self._search(
            query,
            seen,
            limit,
            lambda amount: preferred(atom_candidates(self._store.search_atoms(query, seen, amount)), prefer),
            lambda vector, amount, space: atom_candidates(self._store.nearest_atoms(vector, seen, amount, space)),
        )
        items = [item_of(one, self._zone) for one in found]
        if scene and type is None:
            named = self._scene_named(scope, scene.removesuffix(".md"), as_of)
            if named is not None:
                items = [scene_item(named, self._zone), *items][:limit]
        return SearchResponse(search_text(items, "memory"), len(items), strategy, items)

    def _scene_named(self, scope: str, name: str, as_of: int | None) -> Scene | None:
        """An active one."""
        if as_of is not None:
            past = read_past(self._store, scope, as_of, self._config.memory.persona.max_scenes)
            return next((scene for scene in past.scenes if scene.name == name), None)
        scene = self._store.scene(scope, name)
        return scene if scene is not None and scene.status == "active" else None

    def search_conversations(
        self, query: str, scope: str, *, limit: int, now: int, session_key: str | None, as_of: int | None = None
    ) -> SearchResponse:
        query = shorten_query(query)
        prefer = read_preference(query, now, self._zone)
        seen = Filter(scope, session_key=session_key, prefer=prefer, as_of=as_of)
        found, strategy = self._search(
            query,
            seen,
            limit,
            lambda amount: message_candidates(self._store.search_messages(query, seen, amount)),
            lambda vector, amount, space: message_candidates(
                self._store.nearest_messages(vector, seen, amount, space, query=query)
            ),
        )
        terms = query_terms(query)
        items = [item_of(one, self._zone, terms) for one in found]
        return SearchResponse(search_text(items, "message", terms), len(items), strategy, items)

    def _search(
        self,
        query: str,
        seen: Filter,
        limit: int,
        by_words: Callable[[int], list[Candidate]],
        by_vector: NearestOf,
    ) -> tuple[list[Candidate], str]:
        if match_expression(query) is None:
            return [], "none"
        settings = self._config.memory.recall
        amount = limit * CANDIDATES_PER_RESULT
        near = self._near(query, seen, max(amount, FEWEST_ADDED_UP), by_vector)
        if near:
            amount = max(amount, FEWEST_ADDED_UP)
        worded = by_words(amount) if settings.strategy != "embedding" or near is None else []
        threshold = settings.score_threshold * SEARCH_THRESHOLD_SHARE
        found = fused(worded, near or [], threshold, [], lifted_threshold=settings.score_threshold)
        return found[:limit], _strategy_name(worded, near or [])

    def _near(self, query: str, seen: Filter, amount: int, by_vector: NearestOf) -> list[Candidate] | None:
        """None when there is no embedder or it cannot answer now: the words answer alone, and the strategy says so."""
        embedder = self._asked_embedder()
        if embedder is None or self._config.memory.recall.strategy == "keyword" or embedder.paused():
            return None
        try:
            speakers = self._store.speakers(seen)
            vector = embedder.embed(query, self._embedder_seconds() or SEARCH_EMBEDDING_SECONDS, speakers)
            return by_vector(vector, amount, embedder.space)
        except (EmbeddingError, StoreError) as error:
            log.warning("search by meaning is away (%s), words answer alone", error.code)
            return None

    def _asked_embedder(self) -> QueryEmbedder | None:
        """The former one until the space in use is whole."""
        former = self._former
        return former if former is not None and former.space == self._store.former_space else self._embedder

    def _embedder_seconds(self) -> float | None:
        limit_ms = self._config.memory.embedding.recall_timeout_ms
        return None if limit_ms is None else limit_ms / 1000


def _strategy(finds: Finds) -> str:
    words, vectors = finds.words, finds.vectors
    return _strategy_name(
        (*words.atoms, *words.messages, *words.tail, *words.instructions), (*vectors.atoms, *vectors.messages)
    )


def _strategy_name(by_words: Sequence[object], by_vector: Sequence[object]) -> str:
    """Which side brought something."""
    if by_words and by_vector:
        return "hybrid"
    if by_vector:
        return "embedding"
    return "keyword" if by_words else "none"
