"""The worker's own routes: handshake, the owner's view, maintenance."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse

from memory_tencentdb import protocol, wire
from memory_tencentdb_worker.api import bodies
from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.service.facade import MemoryService
from memory_tencentdb_worker.service.inspection import Inspection

INSPECT_PARAMETERS = frozenset({"level", "since", "until", "limit", "offset", "sort", "filter", "file", "user_id"})
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

    @router.get(protocol.SCENE.replace("{name}", "{name:path}"))
    def scene(name: str, user_id: UserId = None) -> dict[str, Any]:
        return service.scene(name, user_id)

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
    ) -> dict[str, Any]:
        _refuse_unknown(request, INSPECT_PARAMETERS)
        return service.inspect(Inspection(level, since, until, limit, offset, sort, filter, file, user_id))


def _refuse_unknown(request: Request, known: frozenset[str]) -> None:
    """A misspelt filter must not show everything as if it had been applied."""
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        raise InvalidInput(f"these parameters do not exist: {', '.join(map(ascii, unknown))}")
