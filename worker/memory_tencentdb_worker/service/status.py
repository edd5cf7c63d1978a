"""The document of `status`, and the worker's state kept at hand for answers that must not wait for the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import psutil

from memory_tencentdb.outbox import Outbox
from memory_tencentdb.protocol import PROTOCOL, VERSION
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.embedding.base import Embedder
from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import FailingJob, JobCounts, JobKind
from memory_tencentdb_worker.service.facts import WorkerFacts
from memory_tencentdb_worker.service.owner_reasons import owner_part, owner_reasons
from memory_tencentdb_worker.service.reasons import Reason, reason
from memory_tencentdb_worker.service.state import Circumstances, assess
from memory_tencentdb_worker.service.store_watch import STORAGE_KEYS, StoreWatch
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.times import day_start, iso_local

if TYPE_CHECKING:
    from memory_tencentdb_worker.pipeline.loop import Pipeline

FRESH_SECONDS = 1.0
"""A state younger than this is not looked up again."""

NO_JOBS = JobCounts(due=0, running=0, retrying=0, parked=0, waiting=0, oldest_due_at=None)
UNREADABLE: dict[str, dict[str, Any]] = {
    "counts": dict.fromkeys(("turns", "messages", "atoms", "scenes", "persona", "vectors", "superseded")),
    "jobs": dict.fromkeys(
        (
            "due",
            "running",
            "retrying",
            "parked",
            "waiting",
            "oldest_due_seconds",
            "failing",
            "unsupported",
            "turns_to_reread",
        )
    ),
    "vectors": dict.fromkeys(("rows", "embedded", "refused")),
    "calls": dict.fromkeys(("today", "tokens_in", "tokens_out", "cost_usd")),
    "storage": dict.fromkeys(STORAGE_KEYS),
    "owner": dict.fromkeys(("forget_pending", "quarantined", "pauses")),
}


class StatusBoard:
    """Thread-safe. `state` never waits; `refresh` and `document` read the store."""

    def __init__(
        self,
        store: Store,
        config: Config,
        zone: tzinfo,
        clock: Callable[[], int],
        pipeline: Pipeline,
        *,
        facts: WorkerFacts,
        query_trouble: Callable[[], str],
    ) -> None:
        """`query_trouble` says why questions cannot be embedded."""
        self._query_trouble = query_trouble
        self._store, self._config, self._zone, self._clock = store, config, zone, clock
        self._pipeline, self._facts = pipeline, facts
        self._outbox = Outbox(facts.home / "outbox")
        self._lock = threading.Lock()
        self._state, self._reasons = "ok", list[Reason]()
        self._assessed_at = float("-inf")
        self.watch = StoreWatch(store, facts.data_dir, facts.lock)
        self._llm: LLM | None = None
        self._llm_source = ""
        self._of_owner = list[Reason]()
        self.unfinished: Callable[[], str] = str
        """Says why a forgetting is not finished."""
        self._embedder: Embedder | None = None
        self._embedding_problem = ""

    @property
    def state(self) -> str:
        """As last assessed."""
        return self._state

    @property
    def vectors_ready(self) -> bool:
        return self._embedder is not None

    def stale(self) -> bool:
        return time.monotonic() - self._assessed_at > FRESH_SECONDS

    def use_llm(self, llm: LLM | None, source: str) -> None:
        self._llm, self._llm_source = llm, source if llm is not None else ""
        self._forget()

    def use_embedder(self, embedder: Embedder | None, problem: str) -> None:
        self._embedder, self._embedding_problem = embedder, problem
        self._forget()

    def note_store_error(self, error: StoreError, *, writing: bool) -> None:
        """The store refused a write or a read: shown until one of that kind succeeds again."""
        self.watch.failed("write" if writing else "read", error, self._clock())
        self._forget()

    def note_store_success(self, *, writing: bool) -> None:
        if self.watch.succeeded("write" if writing else "read"):
            self._forget()

    def refresh(self) -> str:
        """Assesses anew when the last time is long enough ago. A store that cannot be read makes the state broken."""
        if not self.stale():
            return self._state
        now = self._clock()
        try:
            counts = self._store.job_counts(now)
            self._of_owner = owner_reasons(self._store, now, self.unfinished())
            self.note_store_success(writing=False)
        except StoreError as error:
            self.note_store_error(error, writing=False)
            counts = NO_JOBS
        self._assess(counts, now)
        return self._state

    def document(self) -> dict[str, Any]:
        """CONTRACT 5, all keys. What cannot be read from a broken store is null, and a reason says why."""
        now = self._clock()
        try:
            jobs = self._store.job_counts(now)
            read = self._read_store(jobs, now)
            self._of_owner = owner_reasons(self._store, now, self.unfinished())
            self.note_store_success(writing=False)
        except StoreError as error:
            self.note_store_error(error, writing=False)
            jobs, read = NO_JOBS, UNREADABLE
        self._assess(jobs, now)
        return {
            "state": self._state,
            "reasons": [self._shown(reason) for reason in self._reasons],
            "mode": "offline" if self._llm is None else "model",
            "worker": {
                "pid": self._facts.pid,
                "version": VERSION,
                "protocol": PROTOCOL,
                "uptime_seconds": max(0, (now - self._facts.started_at) // 1000),
                "rss_bytes": psutil.Process().memory_info().rss,
                "socket": self._facts.socket,
                "gateway": self._facts.gateway or None,
            },
            "data_dir": str(self._facts.data_dir),
            "data_dir_id": self._store.data_dir_id,
            "counts": read["counts"],
            "jobs": read["jobs"],
            "outbox": {"turns": self._outbox.pending()},
            "llm": self._llm_part(),
            "embedding": self._embedding_part(read["vectors"]),
            "config": {
                "file": self._facts.config_file,
                "errors": [dict(error) for error in self._facts.config_errors],
                "broken": self._facts.config_broken,
            },
            "calls": read["calls"],
            "storage": self.watch.shown(),
            "owner": read["owner"],
        }

    def reasons(self) -> list[dict[str, Any]]:
        """As in the document, assessed anew."""
        self._forget()
        self.refresh()
        return [self._shown(reason) for reason in self._reasons]

    def parked(self) -> list[dict[str, Any]]:
        """What was set aside, newest first, without the model's raw answers."""
        return [
            {
                "id": one.id,
                "kind": one.kind,
                "user_id": one.scope,
                "session_key": one.session_key,
                "reason": one.reason,
                "at": iso_local(one.parked_at, self._zone),
            }
            for one in self._store.list_parked()
        ]

    def _read_store(self, jobs: JobCounts, now: int) -> dict[str, dict[str, Any]]:
        counts = self._store.counts()
        vectors = self._store.vector_counts()
        calls = self._store.calls_since(day_start(now, self._zone))
        return {
            "counts": {
                "turns": counts.turns,
                "messages": counts.messages,
                "atoms": counts.atoms,
                "scenes": counts.scenes,
                "persona": counts.personas,
                "vectors": vectors.embedded,
                "superseded": counts.superseded,
            },
            "jobs": {
                "due": jobs.due,
                "running": jobs.running,
                "retrying": jobs.retrying,
                "parked": jobs.parked,
                "waiting": jobs.waiting,
                "oldest_due_seconds": _age_seconds(jobs.oldest_due_at, now),
                "failing": [self._failing(job) for job in self._store.failing_jobs()],
                "unsupported": self._store.unsupported(),
                "turns_to_reread": self._store.turns_to_reread(),
            },
            "vectors": {"rows": vectors.rows, "embedded": vectors.embedded, "refused": vectors.refused},
            "owner": owner_part(self._store, self._zone, now),
            "calls": {
                "today": calls.calls,
                "tokens_in": calls.tokens_in,
                "tokens_out": calls.tokens_out,
                "cost_usd": calls.cost_usd,
            },
        }

    def _assess(self, jobs: JobCounts, now: int) -> None:
        of_store = self.watch.reasons(now)
        named = {each.code for each in of_store}
        waits = [one for one in self._pipeline.pause_reasons() if one.code not in named]
        paused = [*of_store, *self._of_owner, *(reason(one.code, one.message, one.since, one.action) for one in waits)]
        circumstances = Circumstances(
            now=now,
            oldest_due_at=jobs.oldest_due_at,
            retrying=jobs.retrying,
            last_error=self._pipeline.last_error("llm"),
            parked=jobs.parked,
            nothing_read_since=self._nothing_read_since() if jobs.parked else None,
            config_errors=len(self._facts.config_errors),
            config_broken=self._facts.config_broken,
            embedding_problem=self._embedding_trouble(),
            paused=paused,
            started_at=self._facts.started_at,
            stuck_at=self._facts.stuck_at,
            outbox_since=self._outbox.oldest_at(),
        )
        state, reasons = assess(circumstances)
        with self._lock:
            self._state, self._reasons = state, reasons
            self._assessed_at = time.monotonic()

    def _nothing_read_since(self) -> int | None:
        """When the newest batch was set aside, if none was read after it."""
        last = self._store.last_extraction_at()
        parked_at = max((one.parked_at for one in self._store.list_parked() if one.kind is JobKind.L1), default=None)
        return parked_at if parked_at is not None and (last is None or last < parked_at) else None

    def _forget(self) -> None:
        """The next `refresh` assesses anew."""
        self._assessed_at = float("-inf")

    def _embedding_trouble(self) -> str:
        if self._embedding_problem:
            return self._embedding_problem
        if self._embedder is not None and self._pipeline.breaker_states().get("embedding") == "open":
            return self._pipeline.last_error("embedding") or "the embedder fails"
        return self._query_trouble()

    def _llm_part(self) -> dict[str, Any]:
        last_ok_at = self._pipeline.last_ok_at("llm")
        return {
            "configured": self._llm is not None,
            "source": self._llm_source,
            "model": self._llm.model if self._llm else "",
            "endpoint": self._llm.endpoint if self._llm else "",
            "breaker": self._pipeline.breaker_states().get("llm", "closed"),
            "last_ok_at": None if last_ok_at is None else iso_local(last_ok_at, self._zone),
            "last_error": self._pipeline.last_error("llm") or None,
        }

    def _embedding_part(self, vectors: dict[str, Any]) -> dict[str, Any]:
        settings = self._config.memory.embedding
        space = self._embedder.space if self._embedder else None
        last_error = self._pipeline.last_error("embedding") or self._embedding_problem or self._query_trouble()
        if not last_error and vectors["refused"]:
            last_error = f"{vectors['refused']} texts were refused by the embedder"
        return {
            "provider": space.provider if space else ("none" if settings.provider == "auto" else settings.provider),
            "model": space.model if space else settings.model,
            "dimensions": space.dimensions if space else settings.dimensions,
            "rows": vectors["rows"],
            "embedded": vectors["embedded"],
            "breaker": self._pipeline.breaker_states().get("embedding", "closed"),
            "last_error": last_error or None,
        }

    def _failing(self, job: FailingJob) -> dict[str, Any]:
        return {
            "kind": job.kind,
            "user_id": job.scope,
            "session_key": job.session_key,
            "attempts": job.attempts,
            "error": job.error,
            "next_at": None if job.due_at is None else iso_local(job.due_at, self._zone),
        }

    def _shown(self, reason: Reason) -> dict[str, Any]:
        return {
            "code": reason.code,
            "message": reason.message,
            "since": None if reason.since is None else iso_local(reason.since, self._zone),
            "action": reason.action,
        }


def _age_seconds(instant: int | None, now: int) -> int:
    return 0 if instant is None else max(0, (now - instant) // 1000)
