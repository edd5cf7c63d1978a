"""The cost ledger as its owner sees it: calls, tokens, money and time by day, task, layer or model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.models import EMBEDDING_TASK, CallSum
from memory_tencentdb_worker.service.arguments import instant_of
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.times import date_local, iso_local, next_day_start

GROUPS = ("layer", "task", "model", "day")
MOST_DAYS = 400
"""A day costs a query; older ones can be asked for with `since` and `until`."""

_LAYERS = {"l1-": "L1", "l2-": "L2", "l3-": "L3", EMBEDDING_TASK: "vectors"}


@dataclass(frozen=True)
class CallsWanted:
    """`since` and `until` as a person wrote them, "" for open; `by` is one of GROUPS."""

    since: str = ""
    until: str = ""
    by: str = "layer"


def call_report(wanted: CallsWanted, store: Store, zone: tzinfo, now: int) -> dict[str, Any]:
    """Rows with a key each, and their total. Raises InvalidInput."""
    if wanted.by not in GROUPS:
        raise InvalidInput(f"by must be one of {', '.join(GROUPS)}")
    first = store.first_call_at()
    since = instant_of(wanted.since or None, "since", zone)
    until = instant_of(wanted.until or None, "until", zone)
    since = (now if first is None else first) if since is None else since
    until = now + 1 if until is None else until
    sums = store.call_sums(since, until)
    if wanted.by == "day":
        days = _days(max(since, first if first is not None else since), until, zone)
        rows = [_row(date_local(begin, zone), store.call_sums(begin, end)) for begin, end in days]
    else:
        rows = _grouped(sums, _KEYS[wanted.by])
    return {
        "since": iso_local(since, zone),
        "until": iso_local(until, zone),
        "by": wanted.by,
        "rows": [row for row in rows if row["calls"]],
        "total": _row("total", sums),
    }


def layer_of(task: str) -> str:
    """The layer that a task of the ledger works for, "other" for checks and the like."""
    return next((layer for start, layer in _LAYERS.items() if task.startswith(start)), "other")


_KEYS: dict[str, Callable[[CallSum], str]] = {
    "layer": lambda one: layer_of(one.task),
    "task": lambda one: one.task,
    "model": lambda one: one.model,
}


def _grouped(sums: Iterable[CallSum], key_of: Callable[[CallSum], str]) -> list[dict[str, Any]]:
    groups: dict[str, list[CallSum]] = {}
    for one in sums:
        groups.setdefault(key_of(one), []).append(one)
    return [_row(key, groups[key]) for key in sorted(groups)]


def _days(since: int, until: int, zone: tzinfo) -> Iterator[tuple[int, int]]:
    """Begin and end of each local day, the first and last one cut to the window."""
    for _ in range(MOST_DAYS):
        if since >= until:
            return
        end = min(next_day_start(since, zone), until)
        yield since, end
        since = end


def _row(key: str, sums: Iterable[CallSum]) -> dict[str, Any]:
    held = list(sums)
    return {
        "key": key,
        "calls": sum(one.calls for one in held),
        "failed": sum(one.failed for one in held),
        "texts": sum(one.texts for one in held),
        "tokens_in": sum(one.tokens_in for one in held),
        "tokens_out": sum(one.tokens_out for one in held),
        "cost_usd": round(sum(one.cost_usd for one in held), 6),
        "elapsed_ms": sum(one.elapsed_ms for one in held),
        "estimated": sum(one.estimated for one in held),
    }
