"""The routes of replay: planning and starting one, looking at it, changing over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from fastapi import APIRouter

from memory_tencentdb import protocol
from memory_tencentdb_worker.api import bodies
from memory_tencentdb_worker.service.replay import ReplayDesk


def replay_routes(replay: ReplayDesk) -> APIRouter:
    router = APIRouter()
    views: dict[str, Callable[[], dict[str, Any]]] = {"status": replay.status, "diff": replay.diff}
    steps: dict[str, Callable[[], dict[str, Any]]] = {
        "switch": replay.switch,
        "rollback": replay.roll_back,
        "abandon": replay.abandon,
    }

    @router.post(protocol.REPLAY)
    def begin(body: bodies.Replay) -> dict[str, Any]:
        if body.dry_run:
            return replay.plan(body.user_id, body.model)
        return replay.begin(body.user_id, body.model)

    @router.get(protocol.REPLAY_STEP)
    def look(step: Literal["status", "diff"]) -> dict[str, Any]:
        return views[step]()

    @router.post(protocol.REPLAY_STEP)
    def take(step: Literal["switch", "rollback", "abandon"]) -> dict[str, Any]:
        return steps[step]()

    return router
