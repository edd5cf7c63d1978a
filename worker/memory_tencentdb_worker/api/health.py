"""`/health`: answers on the event loop itself, whatever the request threads wait for."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from memory_tencentdb.protocol import HEALTH
from memory_tencentdb_worker.service.facade import MemoryService


def health_routes(service: MemoryService) -> APIRouter:
    router = APIRouter()
    looking: set[asyncio.Future[str]] = set()

    @router.get(HEALTH)
    async def health() -> dict[str, Any]:
        if service.state_is_stale() and not looking:
            look = asyncio.get_running_loop().run_in_executor(None, service.refresh_state)
            looking.add(look)  # at most one at a time, also when the store hangs
            look.add_done_callback(looking.discard)
        return service.health()

    router.add_api_route(HEALTH, health, methods=["HEAD"], include_in_schema=False)
    return router
