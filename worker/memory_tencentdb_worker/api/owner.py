"""Routes of the owner: forget, edit, undo, pause, trace."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from memory_tencentdb import protocol
from memory_tencentdb_worker.api import bodies
from memory_tencentdb_worker.service.owner import OwnerDesk


def owner_routes(desk: OwnerDesk) -> APIRouter:
    router = APIRouter()

    @router.post(protocol.FORGET)
    def forget(body: bodies.Forget) -> dict[str, Any]:
        return desk.forget(body)

    @router.get(protocol.FORGET_PENDING)
    def pending() -> dict[str, Any]:
        return desk.pending()

    @router.delete(protocol.FORGET_PENDING)
    def drop_pending() -> dict[str, Any]:
        return desk.drop_wishes()

    @router.post(protocol.RESCAN)
    def rescan(body: bodies.Rescan) -> dict[str, Any]:
        return desk.rescan(body)

    @router.post(protocol.EDIT)
    def edit(body: bodies.Edit) -> dict[str, Any]:
        return desk.edit(body)

    @router.post(protocol.UNDO)
    def undo(body: bodies.Undo) -> dict[str, Any]:
        return desk.undo(body)

    @router.get(protocol.TRACE.replace("{id}", "{id:path}"))
    def trace(id: str, user_id: str | None = None) -> dict[str, Any]:
        return desk.trace_turn(id, user_id)

    @router.get(protocol.AUDIT)
    def audit(limit: int = 50, user_id: str | None = None) -> dict[str, Any]:
        return desk.audit(limit, user_id)

    @router.post(protocol.PAUSE)
    def pause(body: bodies.Pause) -> dict[str, Any]:
        return desk.pause(body)

    @router.post(protocol.RESUME)
    def resume(body: bodies.Pause) -> dict[str, Any]:
        return desk.resume(body)

    return router
