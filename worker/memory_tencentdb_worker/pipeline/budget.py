"""The day's budget: whether models may still be asked today, and when again if not.

What is spent is read from the ledger, so that a restart forgets nothing. The budget is looked at between two jobs: the
one that goes beyond it is finished, because its calls are paid for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo

from memory_tencentdb_worker.config.model import BudgetSettings
from memory_tencentdb_worker.endpoints import is_loopback
from memory_tencentdb_worker.models import EmbeddingSpace
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.times import day_start, iso_local, next_day_start


@dataclass(frozen=True)
class BudgetPause:
    """Used up: since the look that found it so, until the next local day."""

    code: str  # budget_tokens, budget_cost
    message: str
    since: int
    until: int
    action: str


class DayBudget:
    """Thread-safe: replaced values are whole. `counts_embedding`: the embedding endpoint costs something too."""

    def __init__(self, store: Store, settings: BudgetSettings, zone: tzinfo, clock: Callable[[], int]) -> None:
        self._store, self._settings, self._zone, self._clock = store, settings, zone, clock
        self._pause: BudgetPause | None = None
        self.counts_embedding = False

    def use(self, settings: BudgetSettings) -> None:
        """Other limits from now on: raised ones end a pause."""
        self._settings = settings

    @property
    def pause(self) -> BudgetPause | None:
        """As last looked at, unless its day is over."""
        pause = self._pause
        return pause if pause is not None and self._clock() < pause.until else None

    def look(self) -> BudgetPause | None:
        """None: models may be asked. Raises StoreError."""
        settings, now = self._settings, self._clock()
        if not settings.tokens_per_day and not settings.cost_usd_per_day:
            self._pause = None
            return None
        begun, until = day_start(now, self._zone), next_day_start(now, self._zone)
        spent = self._store.calls_since(begun, with_embedding=self.counts_embedding)
        tokens = spent.tokens_in + spent.tokens_out
        known = self.pause
        since = known.since if known is not None else now
        if settings.tokens_per_day and tokens >= settings.tokens_per_day:
            what = f"{tokens:,} of {settings.tokens_per_day:,} tokens"
            self._pause = self._used_up("budget_tokens", what, "tokensPerDay", since, until)
        elif settings.cost_usd_per_day and spent.cost_usd >= settings.cost_usd_per_day:
            what = f"{spent.cost_usd:.4f} of {settings.cost_usd_per_day:g} US dollars"
            self._pause = self._used_up("budget_cost", what, "costUsdPerDay", since, until)
        else:
            self._pause = None
        return self._pause

    def _used_up(self, code: str, what: str, key: str, since: int, until: int) -> BudgetPause:
        at = iso_local(until, self._zone)
        message = f"today's budget for models is used up ({what}): what they would read waits until {at}"
        action = f"wait, or raise `memory.budget.{key}` and run `memory-tencentdb restart`; turns are kept meanwhile"
        return BudgetPause(code, message, since, until, action)


def costs_money(space: EmbeddingSpace, base_url: str) -> bool:
    """Neither the offline model nor an endpoint on this machine does."""
    return space.provider != "local" and not is_loopback(base_url)
