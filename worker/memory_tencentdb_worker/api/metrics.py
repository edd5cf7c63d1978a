"""`/metrics`: the worker's state and its requests in the Prometheus text format. No text of a memory and no name of a
session or user is in it."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import PlainTextResponse

from memory_tencentdb import protocol
from memory_tencentdb_worker.service.facade import MemoryService

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PREFIX = "memory_tencentdb_"
STATES = ("ok", "lagging", "degraded", "paused", "broken")
BOUNDS_SECONDS = (0.005, 0.025, 0.1, 0.5, 2.0, 10.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "POST", "DELETE", "HEAD"})
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

Labels = Mapping[str, str]
Sample = tuple[Labels, float | None]


@dataclass
class Durations:
    """How many requests took at most how long; the last place is for those beyond every bound."""

    places: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_SECONDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.places[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.seconds += seconds


class RequestCounts:
    """By route, as it is declared, so that what callers write makes no new lines. Written on the event loop; a reader
    elsewhere copies first."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str, int], int] = {}
        self.durations: dict[str, Durations] = {}

    def note(self, route: str, method: str, status: int, seconds: float) -> None:
        key = (route, method, status)
        self.answers[key] = self.answers.get(key, 0) + 1
        self.durations.setdefault(route, Durations()).add(seconds)

    def document(self) -> dict[str, dict[str, float]]:
        """By route: how many, how many of them in vain, and how long they took together."""
        shown: dict[str, dict[str, float]] = {}
        for route, took in sorted(self.durations.copy().items()):
            shown[route] = {"count": sum(took.places), "failed": 0, "seconds": round(took.seconds, 6)}
        for (route, _method, status), number in self.answers.copy().items():
            if route in shown and (status >= 400 or not status):
                shown[route]["failed"] += number
        return shown


class Meter:
    """The app with its requests counted."""

    def __init__(self, app: ASGIApp, counts: RequestCounts) -> None:
        self._app, self._counts = app, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._counts.note(route, method, status, time.monotonic() - began)


def metrics_routes(service: MemoryService, counts: RequestCounts) -> APIRouter:
    router = APIRouter()

    @router.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        text = "".join([*_state_lines(service.status()), *request_lines(counts)])
        return PlainTextResponse(text, media_type=CONTENT_TYPE)

    @router.get(protocol.ACTIVITY)
    def activity() -> dict[str, Any]:
        return {"requests": counts.document()}

    return router


def _state_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """A figure that a broken store keeps back is left out: a gap is true, a zero would not be."""
    worker, jobs, vectors = status["worker"], status["jobs"], status["embedding"]
    calls, breakers = status["calls"], {"llm": status["llm"]["breaker"], "embedding": vectors["breaker"]}
    yield from _metric("info", "gauge", "what runs", [({"version": worker["version"]}, 1)])
    states = [({"state": name}, int(name == status["state"])) for name in STATES]
    yield from _metric("state", "gauge", "1 for the state that status shows", states)
    yield from _metric("uptime_seconds", "gauge", "since the worker began", [({}, worker["uptime_seconds"])])
    yield from _metric("resident_bytes", "gauge", "memory of the worker", [({}, worker["rss_bytes"])])
    stored = [({"kind": name}, count) for name, count in status["counts"].items()]
    yield from _metric("stored", "gauge", "what the store holds", stored)
    waiting = [({"state": name}, jobs.get(name)) for name in ("due", "running", "retrying", "waiting", "parked")]
    yield from _metric("jobs", "gauge", "jobs of the pipeline", waiting)
    yield from _metric("oldest_due_seconds", "gauge", "how late the pipeline is", [({}, jobs["oldest_due_seconds"])])
    yield from _metric("outbox_turns", "gauge", "turns on their way", [({}, status["outbox"]["turns"])])
    yield from _metric("vectors_wanted", "gauge", "texts that should have a vector", [({}, vectors["rows"])])
    opened = [({"kind": name}, int(state == "open")) for name, state in breakers.items() if state is not None]
    yield from _metric("breaker_open", "gauge", "1 while nothing is asked", opened)
    yield from _metric("model_calls_today", "gauge", "since local midnight", [({}, calls["today"])])
    tokens = [({"direction": name}, calls[f"tokens_{name}"]) for name in ("in", "out")]
    yield from _metric("model_tokens_today", "gauge", "since local midnight", tokens)
    yield from _metric("model_cost_usd_today", "gauge", "since local midnight", [({}, calls["cost_usd"])])


def request_lines(counts: RequestCounts) -> Iterator[str]:
    answers = [
        ({"route": route, "method": method, "status": str(status)}, number)
        for (route, method, status), number in sorted(counts.answers.copy().items())
    ]
    yield from _metric("http_requests_total", "counter", "answered requests", answers)
    name = "http_request_seconds"
    yield from _head(name, "histogram", "time until the answer was sent")
    for route, took in sorted(counts.durations.copy().items()):
        below = 0
        for bound, number in zip([*map(str, BOUNDS_SECONDS), "+Inf"], took.places, strict=True):
            below += number
            yield _line(f"{name}_bucket", {"route": route, "le": bound}, below)
        yield _line(f"{name}_sum", {"route": route}, took.seconds)
        yield _line(f"{name}_count", {"route": route}, below)


def _metric(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield from _head(name, kind, meaning)
    for labels, value in samples:
        if value is not None:
            yield _line(name, labels, value)


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {meaning}\n"
    yield f"# TYPE {PREFIX}{name} {kind}\n"


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
    return f"{PREFIX}{name}{{{inside}}} {value}\n" if inside else f"{PREFIX}{name} {value}\n"
