"""The composition root: the only place that picks concrete classes and puts the parts of one worker together."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import SecretStr

from memory_tencentdb import faults
from memory_tencentdb.holder import LOCK_FILE
from memory_tencentdb.outbox import Outbox
from memory_tencentdb.redaction import Redactor
from memory_tencentdb.redaction.settings import RedactionSettings, announce_settings, load_redactor
from memory_tencentdb.wire import ConversationSearchRequest, HostModel
from memory_tencentdb_worker.api.app import build_app
from memory_tencentdb_worker.config.load import LoadedConfig, with_problem
from memory_tencentdb_worker.config.model import Config, LLMSettings, Secrets
from memory_tencentdb_worker.config.unused import with_unused_parts
from memory_tencentdb_worker.embedding.base import Embedder, ReportUse
from memory_tencentdb_worker.embedding.build import build_embedder, build_former_embedder
from memory_tencentdb_worker.errors import ConfigError, StoreError
from memory_tencentdb_worker.last_exit import STUCK, LastExit
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.llm.lane import LaneLLM
from memory_tencentdb_worker.models import Filter
from memory_tencentdb_worker.outbox_replay import OutboxReplay
from memory_tencentdb_worker.pipeline.documents import Documents
from memory_tencentdb_worker.pipeline.ledger import EmbeddingLedger, LedgerLLM
from memory_tencentdb_worker.pipeline.loop import Pipeline
from memory_tencentdb_worker.pipeline.replay import Replay
from memory_tencentdb_worker.places import Places
from memory_tencentdb_worker.service import MemoryService, WorkerFacts
from memory_tencentdb_worker.service.doctor import Doctor, DoctorTools
from memory_tencentdb_worker.service.forgetting import ForgetDesk, ForgetPlaces, ForgetTools
from memory_tencentdb_worker.service.owner import OwnerDesk
from memory_tencentdb_worker.service.quarantine import QuarantineDesk
from memory_tencentdb_worker.service.replay import ReplayDesk
from memory_tencentdb_worker.service.rescan import SecretScan
from memory_tencentdb_worker.service.upkeep import Upkeep
from memory_tencentdb_worker.service.v2 import V2Desk
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.forgetting import Forgetting
from memory_tencentdb_worker.store.generations import Generations
from memory_tencentdb_worker.store.projections import Projector
from memory_tencentdb_worker.store.redacting import Redacting
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from memory_tencentdb_worker.text.times import resolve_zone

if TYPE_CHECKING:
    from fastapi import FastAPI

logger = logging.getLogger(__name__)

PIPELINE_STOP_SECONDS = 3.0

Clock = Callable[[], int]
AddSecrets = Callable[[Iterable[str]], None]


@dataclass
class Worker:
    """One worker's parts. `start` begins the pipeline's work; `close` ends everything in order, safe to call twice."""

    app: FastAPI
    store: Store
    pipeline: Pipeline
    projector: Projector
    service: MemoryService
    models: ModelDesk
    embedders: tuple[Embedder, ...]
    replay: OutboxReplay
    replaying: Replay
    upkeep: Upkeep
    owner: OwnerDesk
    clock: Clock
    closed: bool = False

    def start(self) -> None:
        self.pipeline.start()
        self.replaying.start()
        self.owner.start()

    def working(self, patience_seconds: float) -> bool:
        """A job is running or due. One that stays due for longer is held up by something that waiting does not cure."""
        try:
            now = self.clock()
            jobs = self.store.job_counts(now)
            if self.replaying.working:
                return True
        except StoreError:
            logger.warning("the store does not answer the idle watch", exc_info=True)
            return False
        waited_ms = now - (jobs.oldest_due_at if jobs.oldest_due_at is not None else now)
        return jobs.running > 0 or (jobs.due > 0 and waited_ms < patience_seconds * 1000)

    def close(self) -> None:
        """Finishes the transaction, gives leases back, writes the files, checkpoints the store."""
        if self.closed:
            return
        self.closed = True
        self.upkeep.stop()
        self.owner.stop()
        self.replay.stop()
        self.replaying.end()
        self.pipeline.stop(PIPELINE_STOP_SECONDS)
        faults.reach("worker.stopping")
        self.service.close()
        self.models.close()
        self.replaying.stop()
        for embedder in self.embedders:
            embedder.close()
        try:
            self.projector.refresh()
        except (StoreError, OSError):
            logger.warning("the readable files were not written at the end; the next start does it", exc_info=True)
        finally:
            self.store.close()


class ModelDesk:
    """Which extraction model is in use: the configured one, else the host's, else none (offline mode)."""

    def __init__(self, config: Config, places: Places, store: Store, clock: Clock, add_secrets: AddSecrets) -> None:
        self._settings, self._logs = config.llm, places.logs
        self._store, self._clock, self._add_secrets = store, clock, add_secrets
        self._lock = threading.Lock()
        self._offered: HostModel | None = None
        self._llm: LLM | None = None
        self._use: Callable[[LLM | None, str], None] | None = None

    def serve(self, use: Callable[[LLM | None, str], None]) -> None:
        """Hands the configured model over, if there is one; from now on a host's model is handed over too. Neither in
        a chosen offline mode."""
        if self._settings.offline:
            return
        self._use = use
        if self._settings.model:
            self._llm = self._lane(self._settings)
            use(self._llm, "config")
            self._remember(host=False)

    def take_host_model(self, offered: HostModel) -> None:
        """Kept in memory only. The same offer again changes nothing; another one replaces the lane."""
        with self._lock:
            if self._settings.model or offered == self._offered or self._use is None:
                return
            self._offered = offered
            self._add_secrets([offered.api_key])
            former, self._llm = self._llm, self._lane(host_settings(offered, self._settings))
            self._use(self._llm, "host")
            self._remember(host=True)
        if former is not None:
            former.close()

    def host_awaited(self) -> bool:
        """Whether the host's model read the conversations so far and has not been offered to this worker yet. Raises
        StoreError."""
        return self._llm is None and not self._settings.offline and self._store.host_model_used()

    def close(self) -> None:
        if self._llm is not None:
            self._llm.close()

    def _remember(self, *, host: bool) -> None:
        """For the next start. A store that cannot write now is seen elsewhere and keeps no model from working."""
        try:
            if self._store.host_model_used() is not host:
                self._store.set_host_model_used(host)
        except StoreError as error:
            logger.warning("which model is in use could not be noted: %s", error)

    def _lane(self, settings: LLMSettings) -> LLM:
        return LedgerLLM(LaneLLM(settings, self._logs), self._store, self._clock)


def build_worker(
    places: Places,
    socket: str,
    clock: Clock,
    stop: Callable[[], None],
    add_secrets: AddSecrets,
    last_exit: LastExit | None = None,
    gateway: str = "",
) -> Worker:
    """`last_exit` is how the worker before this one left, `gateway` the address of the TCP listener. Raises
    SchemaTooNew, StoreCorrupt, StoreError. An embedder that cannot be built means keyword search only."""
    config = places.loaded.config
    zone = resolve_zone(config.memory.timezone)
    redactor = announce_settings(places.home, redaction_settings(config.memory.secrets))
    store = open_store(places.data_dir, clock())
    embedding_ledger = EmbeddingLedger(store, clock)
    report = embedding_ledger.note
    embedder, problem, loaded = _open_vectors(with_unused_parts(places.loaded), store, places.logs, report)
    former = _former_embedder(config, store, places.logs, report) if embedder is not None else None
    projector = _projector(places, store, clock, redactor)
    pipeline = Pipeline(store, config, zone, clock, projector, embedding_ledger)
    models = ModelDesk(config, places, store, clock, add_secrets)
    service = MemoryService(
        store,
        config,
        zone,
        clock,
        pipeline,
        facts=replace(_facts(places, loaded, socket, last_exit, clock()), gateway=gateway),
        rebuild_files=projector.rebuild,
        on_host_model=models.take_host_model,
        on_stop=stop,
        redactor=redactor,
    )
    models.serve(service.use_llm)
    if models.host_awaited():
        pipeline.await_host_model()
    service.use_embedder(embedder, problem, former)
    embedders = tuple(one for one in (embedder, former) if one is not None)
    replay = OutboxReplay(Outbox(places.home / "outbox"), service)
    upkeep = Upkeep(store, service.watch, clock, quiet=service.is_quiet, refresh=service.refresh_state)
    replaying = Replay(
        Generations(store),
        store,
        config,
        zone,
        clock,
        llm=lambda: pipeline.llm,
        budget=pipeline.budget,
        changed=pipeline.wake,
    )
    service.use_former(replaying.generations.kept_atom)
    owner = _owner_desk(places, store, projector, pipeline, replaying, config, zone, clock, redactor)
    service.use_listener(owner.heard, owner.unfinished)
    quarantine = QuarantineDesk(store, config, zone, clock, pipeline.wake)
    desk = ReplayDesk(replaying, store, config, zone, clock, lambda: pipeline.llm)
    v2 = V2Desk(service, owner, store, zone, clock, wake=pipeline.wake, redactor=redactor)
    app = build_app(service, desk, owner, quarantine, _doctor(places, store, projector, service, pipeline, clock), v2)
    return Worker(app, store, pipeline, projector, service, models, embedders, replay, replaying, upkeep, owner, clock)


def _projector(places: Places, store: Store, clock: Clock, redactor: Redactor) -> Projector:
    memory = places.loaded.config.memory
    return Projector(
        store,
        places.data_dir,
        resolve_zone(memory.timezone),
        persona_backups=memory.persona.backup_count,
        scene_backups=memory.persona.scene_backup_count,
        clock=clock,
        redact=redactor.redact,
    )


def _doctor(
    places: Places, store: SqliteStore, projector: Projector, service: MemoryService, pipeline: Pipeline, clock: Clock
) -> Doctor:
    def find(words: str, user: str) -> list[str]:
        request = ConversationSearchRequest(query=words, user_id=user)
        return [one.id for one in service.search_conversations(request).items]

    edits = Documents(store, projector, clock)
    tools = DoctorTools(read_edits=edits.sync, find=find, ask=service.check, wake=pipeline.wake)
    return Doctor(store, projector, places.home, clock, tools)


def offline_doctor(places: Places, store: SqliteStore, clock: Clock) -> Doctor:
    """For a data directory without a worker; neither model nor embedder is asked."""
    projector = _projector(places, store, clock, load_redactor(places.home))
    tools = DoctorTools(
        read_edits=Documents(store, projector, clock).sync,
        find=lambda words, user: [one.message.id for one in store.search_messages(words, Filter(scope=user), 5)],
        ask=None,
        wake=lambda: None,
    )
    return Doctor(store, projector, places.home, clock, tools)


def _owner_desk(
    places: Places,
    store: SqliteStore,
    projector: Projector,
    pipeline: Pipeline,
    replaying: Replay,
    config: Config,
    zone: tzinfo,
    clock: Clock,
    redactor: Redactor,
) -> OwnerDesk:
    tools = ForgetTools(
        read_edits=Documents(store, projector, clock).sync,
        rebuild_files=projector.rebuild,
        drop_generations=replaying.drop_generations,
        back_up=store.back_up,
        settle_wish=store.settle_wish,
        wishes=store.wishes,
        wake=pipeline.wake,
        secrets=SecretScan(Redacting(store), store, redactor),
    )
    forget_places = ForgetPlaces(places.home, places.data_dir, places.logs)
    return OwnerDesk(
        ForgetDesk(Forgetting(store), forget_places, tools, zone, clock),
        store,
        zone,
        clock,
        wake=pipeline.wake,
        max_scenes=config.memory.persona.max_scenes,
        auto=config.memory.forget.auto,
        redactor=redactor,
    )


def redaction_settings(chosen: Secrets) -> RedactionSettings:
    return RedactionSettings(chosen.enabled, tuple(chosen.allow), chosen.personal)


def host_settings(offered: HostModel, limits: LLMSettings) -> LLMSettings:
    """The host's model in our words. An address is taken as OpenAI-compatible, except Anthropic's own, which litellm
    knows by the provider's name; without an address the provider's name leads."""
    own_address = (urlsplit(offered.base_url).hostname or "").endswith("anthropic.com")
    named = offered.provider and (not offered.base_url or own_address)
    model = offered.model
    if named and not model.startswith(f"{offered.provider}/"):
        model = f"{offered.provider}/{model}"
    return limits.model_copy(
        update={
            "base_url": "" if named else offered.base_url,
            "api_key": SecretStr(offered.api_key),
            "model": model,
        }
    )


def _open_vectors(
    loaded: LoadedConfig, store: Store, logs: Path, report: ReportUse
) -> tuple[Embedder | None, str, LoadedConfig]:
    """The embedder with its space opened in the store, or none and why."""
    try:
        embedder = build_embedder(loaded.config.memory.embedding, logs, report)
        store.use_space(embedder.space if embedder is not None else None)
    except (ConfigError, StoreError) as error:
        if isinstance(error, StoreError) and error.code != "vectors_unavailable":
            raise  # a store that cannot be written now says nothing about vectors
        logger.warning("no vectors: %s", error)
        return None, str(error), with_problem(loaded, "memory.embedding.provider", str(error), "none")
    return embedder, "", loaded


def _former_embedder(config: Config, store: Store, logs: Path, report: ReportUse) -> Embedder | None:
    """Asks the space that is being replaced until the new one is whole."""
    space = store.former_space
    return build_former_embedder(config.memory.embedding, space, logs, report) if space is not None else None


def _facts(places: Places, loaded: LoadedConfig, socket: str, last_exit: LastExit | None, now: int) -> WorkerFacts:
    return WorkerFacts(
        home=places.home,
        data_dir=places.data_dir,
        socket=socket,
        pid=os.getpid(),
        started_at=now,
        config_file=str(loaded.file) if loaded.file else None,
        config_errors=tuple(vars(problem) for problem in loaded.errors),
        config_broken=loaded.broken,
        lock=places.data_dir / LOCK_FILE,
        stuck_at=last_exit.at if last_exit is not None and last_exit.reason == STUCK else None,
    )
