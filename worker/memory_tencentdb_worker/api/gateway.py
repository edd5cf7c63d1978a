"""The manual's seven gateway routes (without `/seed`), with the additions of CONTRACT 6."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request

from memory_tencentdb import protocol, wire
from memory_tencentdb_worker.api import bodies
from memory_tencentdb_worker.api.gate import ARRIVED
from memory_tencentdb_worker.service.facade import MemoryService


def gateway_routes(service: MemoryService) -> APIRouter:
    router = APIRouter()

    @router.post(protocol.RECALL)
    def recall(body: bodies.Recall, request: Request) -> wire.RecallResponse:
        waited_ms = (time.monotonic() - request.scope[ARRIVED]) * 1000
        return service.recall(body, spent_ms=waited_ms)

    @router.post(protocol.CAPTURE)
    def capture(body: bodies.Capture) -> wire.CaptureResponse:
        return service.capture(body)

    @router.post(protocol.SEARCH_MEMORIES)
    def search_memories(body: bodies.MemorySearch) -> wire.SearchResponse:
        return service.search_memories(body)

    @router.post(protocol.SEARCH_CONVERSATIONS)
    def search_conversations(body: bodies.ConversationSearch) -> wire.SearchResponse:
        return service.search_conversations(body)

    @router.post(protocol.SESSION_END)
    def session_end(body: bodies.SessionEnd) -> wire.SessionEndResponse:
        return service.session_end(body)

    return router
