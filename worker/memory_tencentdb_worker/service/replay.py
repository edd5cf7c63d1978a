"""Replay as its owner uses it: what it would cost, how far it is, what it would change, and the change itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from typing import Any, TypeVar

from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import InvalidInput, NotFound, Refused, StoreError
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import BY_RULES, Atom
from memory_tencentdb_worker.pipeline.replay import Replay
from memory_tencentdb_worker.service.arguments import scope_of
from memory_tencentdb_worker.service.estimate import estimate
from memory_tencentdb_worker.service.generation_diff import compare_facts
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.generations import Generation
from memory_tencentdb_worker.text.times import iso_local

REFUSALS = frozenset(
    {"replay_exists", "replay_not_ready", "replay_outdated", "nothing_kept", "generation_schema", "generation_lost"}
)
"""Codes of the store that say what cannot be done, not that something is broken."""

MODEL_NAME_LIMIT = 200

T = TypeVar("T")


class ReplayDesk:
    """Thread-safe."""

    def __init__(
        self,
        replay: Replay,
        store: Store,
        config: Config,
        zone: tzinfo,
        clock: Callable[[], int],
        llm: Callable[[], LLM | None],
    ) -> None:
        self._replay, self._store, self._config, self._zone = replay, store, config, zone
        self._clock, self._llm = clock, llm
        self._generations = replay.generations

    def plan(self, user_id: str | None, model: str) -> dict[str, Any]:
        """Raises InvalidInput."""
        scope, used = _scope(user_id), self._model(model)
        sums = self._store.call_sums(0, self._clock() + 1)
        expected = estimate(self._store.text_volumes(scope), sums, "" if used == BY_RULES else used)
        return {"user_id": user_id, "model": used, **expected.document()}

    def begin(self, user_id: str | None, model: str) -> dict[str, Any]:
        """Raises InvalidInput, Refused."""
        scope, used = _scope(user_id), self._model(model)
        kept_name = used if used == BY_RULES else model
        return self._shown(_asked(lambda: self._replay.begin(scope, kept_name)))

    def status(self) -> dict[str, Any]:
        shadow, kept = self._generations.shadow(), self._generations.kept()
        return {
            "shadow": None if shadow is None else self._shown(shadow) | self._progress(shadow),
            "kept": None if kept is None else self._shown(kept),
        }

    def diff(self) -> dict[str, Any]:
        """What a switch would change; without a replay, what a rollback would. Raises NotFound."""
        other = self._generations.shadow() or self._generations.kept()
        if other is None:
            raise NotFound("there is no replay to compare with: `memory-tencentdb replay --dry-run` plans one")
        scope = other.scope
        facts = compare_facts(
            self._generations.live_atoms(None, scope), _asked(lambda: self._generations.live_atoms(other, scope))
        )
        return {
            "generation": self._shown(other),
            "hash": self._generations.content_hash(scope),  # of what is in use
            "counts": {
                "same": facts.same,
                "changed": len(facts.changed),
                "only_old": len(facts.only_old),
                "only_new": len(facts.only_new),
            },
            "changed": [{"old": _fact(old), "new": _fact(new)} for old, new in facts.changed],
            "only_old": [_fact(atom) for atom in facts.only_old],
            "only_new": [_fact(atom) for atom in facts.only_new],
            "scenes": {
                "old": self._store.counts(scope).scenes,
                "new": self._generations.counts(other).scenes,
            },
            "spent": self._spent(other.id),
        }

    def switch(self) -> dict[str, Any]:
        """Raises Refused."""
        kept = _asked(self._replay.switch)
        message = f"the new memories are in use; the former ones are kept as {kept.id} for `replay rollback`"
        return {"message": message, "hash": self._generations.content_hash(kept.scope), "kept": self._shown(kept)}

    def roll_back(self) -> dict[str, Any]:
        """Raises Refused."""
        kept = _asked(self._replay.roll_back)
        message = f"the former memories are in use again; the others are kept as {kept.id} for another rollback"
        return {"message": message, "hash": self._generations.content_hash(kept.scope), "kept": self._shown(kept)}

    def abandon(self) -> dict[str, Any]:
        """Raises NotFound."""
        gone = self._replay.abandon()
        return {"message": f"the replay {gone.id} was thrown away; nothing in use has changed"}

    def _model(self, asked: str) -> str:
        if len(asked) > MODEL_NAME_LIMIT:
            raise InvalidInput(f"model is longer than {MODEL_NAME_LIMIT} characters")
        llm = self._llm()
        if llm is None and asked and asked != BY_RULES:
            raise InvalidInput("no model is configured, so there is no endpoint that could have another one")
        if llm is None or asked == BY_RULES:
            return BY_RULES
        return asked or llm.model

    def _shown(self, one: Generation) -> dict[str, Any]:
        counts = _asked(lambda: self._generations.counts(one))
        return {
            "id": one.id,
            "state": one.state,
            "user_id": one.scope,
            "model": one.model,
            "made_at": iso_local(one.made_at, self._zone),
            "changed_at": iso_local(one.changed_at, self._zone),
            "hash": one.hash,
            "atoms": counts.atoms,
            "scenes": counts.scenes,
            "parked": counts.parked,
        }

    def _progress(self, shadow: Generation) -> dict[str, Any]:
        return {
            "messages": self._generations.counts(shadow).messages,
            "messages_read": self._generations.messages_read(shadow),
            "error": self._replay.waits_for,
            **self._spent(shadow.id),
        }

    def _spent(self, generation: str) -> dict[str, Any]:
        spent = self._store.calls_since(0, generation=generation)
        return {
            "calls": spent.calls,
            "tokens_in": spent.tokens_in,
            "tokens_out": spent.tokens_out,
            "cost_usd": round(spent.cost_usd, 6),
        }


def _asked(work: Callable[[], T]) -> T:
    try:
        return work()
    except StoreError as error:
        if error.code in REFUSALS:
            raise Refused(str(error), code=error.code) from error
        raise


def _scope(user_id: str | None) -> str | None:
    return None if user_id is None else scope_of(user_id)


def _fact(atom: Atom) -> dict[str, Any]:
    return {
        "id": atom.id,
        "user_id": atom.scope,
        "type": atom.type,
        "text": atom.content,
        "sources": [source.message_id for source in atom.sources],
    }
