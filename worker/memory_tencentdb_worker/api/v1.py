"""The worker's own routes: handshake, the owner's view, maintenance."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse

from memory_tencentdb import protocol, wire
from memory_tencentdb_worker.api import bodies
from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.service.calls import CallsWanted
from memory_tencentdb_worker.service.facade import MemoryService
from memory_tencentdb_worker.service.inspection import Inspection

INSPECT_PARAMETERS = frozenset(
    {"level", "since", "until", "limit", "offset", "sort", "filter", "file", "user_id", "as_of"}
)
UserId = Annotated[str | None, Query(description="one user's; without it everybody's")]


def v1_routes(service: MemoryService) -> APIRouter:
    router = APIRouter()
    _add_life(router, service)
    _add_views(router, service)
    return router


def _add_life(router: APIRouter, service: MemoryService) -> None:
    @router.post(protocol.HELLO)
    def hello(body: bodies.Hello) -> wire.HelloResponse:
        return service.hello(body)

    @router.post(protocol.MEMORY_WRITE)
    def memory_write(body: bodies.MemoryWrite) -> wire.MemoryWriteResponse:
        return service.memory_write(body)

    @router.post(protocol.FLUSH)
    def flush(body: bodies.Flush) -> wire.FlushResponse:
        return service.flush(body)

    @router.post(protocol.REBUILD)
    def rebuild() -> dict[str, Any]:
        return service.rebuild()

    @router.post(protocol.CHECK)
    def check(part: str) -> dict[str, Any]:
        return service.check(part)

    @router.post(protocol.STOP, status_code=202)
    async def stop() -> JSONResponse:
        service.request_stop()
        return JSONResponse({"stopping": True}, 202)


def _add_views(router: APIRouter, service: MemoryService) -> None:
    @router.get(protocol.STATUS)
    def status() -> dict[str, Any]:
        return service.status()

    @router.get(protocol.PARKED)
    def parked() -> dict[str, Any]:
        return {"parked": service.parked()}

    @router.get(protocol.WHY.replace("{id}", "{id:path}"))
    def why(id: str, user_id: UserId = None) -> wire.WhyResponse:
        return service.why(id, user_id)

    @router.post(protocol.WHY_NOT)
    def why_not(body: bodies.WhyNot) -> wire.WhyNotResponse:
        return service.why_not(body)

    @router.get(protocol.CALLS)
    def calls(since: str = "", until: str = "", by: str = "layer") -> dict[str, Any]:
        return service.calls(CallsWanted(since, until, by))

    @router.get(protocol.SCENE.replace("{name}", "{name:path}"))
    def scene(name: str, user_id: UserId = None) -> dict[str, Any]:
        return service.scene(name, user_id)

    @router.get(protocol.HISTORY.replace("{name}", "{name:path}"))
    def history(name: str, user_id: str = "") -> dict[str, Any]:
        return service.history(name, user_id)

    @router.get(protocol.DIFF.replace("{name}", "{name:path}"))
    def diff(name: str, user_id: str = "", before: int | None = None, after: int | None = None) -> dict[str, Any]:
        return service.diff(name, user_id, before, after)

    @router.post(protocol.ROLLBACK)
    def rollback(body: bodies.Rollback) -> dict[str, Any]:
        return service.roll_back(body)

    @router.get(protocol.INSPECT)
    def inspect(
        request: Request,
        *,
        level: str = "",
        since: str = "",
        until: str = "",
        limit: int = 50,
        offset: int = 0,
        sort: str = "desc",
        filter: str = "",
        file: str = "",
        user_id: UserId = None,
        as_of: str = "",
    ) -> dict[str, Any]:
        _refuse_unknown(request, INSPECT_PARAMETERS)
        return service.inspect(Inspection(level, since, until, limit, offset, sort, filter, file, user_id, as_of))


def _refuse_unknown(request: Request, known: frozenset[str]) -> None:
    """A misspelt filter must not show everything as if it had been applied."""
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        raise InvalidInput(f"these parameters do not exist: {', '.join(map(ascii, unknown))}")
