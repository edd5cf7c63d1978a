"""Routes of the quarantine."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from memory_tencentdb import protocol
from memory_tencentdb_worker.service.quarantine import QuarantineDesk


def quarantine_routes(desk: QuarantineDesk) -> APIRouter:
    router = APIRouter()

    @router.get(protocol.QUARANTINE)
    def listed(state: str = "", user_id: str | None = None, limit: int = 50) -> dict[str, Any]:
        return desk.list(state, user_id, limit)

    @router.get(protocol.SUSPECT)
    def show(id: str) -> dict[str, Any]:
        return desk.show(id)

    @router.post(protocol.SUSPECT + "/release")
    def release(id: str) -> dict[str, Any]:
        return desk.release(id)

    @router.post(protocol.SUSPECT + "/drop")
    def drop(id: str) -> dict[str, Any]:
        return desk.drop(id)

    return router
