"""The original's fourteen v2 routes and `pipeline/status`, for the default user."""

from __future__ import annotations

import secrets
from typing import Any

from fastapi import APIRouter, Request

from memory_tencentdb_worker.api import v2_bodies as bodies
from memory_tencentdb_worker.api.access import REQUEST_ID
from memory_tencentdb_worker.service.v2 import Span, V2Desk

PREFIX = "/v2"


def v2_routes(desk: V2Desk) -> APIRouter:
    router = APIRouter(prefix=PREFIX)
    _add_conversation(router, desk)
    _add_atomic(router, desk)
    _add_documents(router, desk)

    @router.post("/pipeline/status")
    def pipeline_status(request: Request) -> bodies.Envelope:
        return _done(request, desk.pipeline_status())

    return router


def _add_conversation(router: APIRouter, desk: V2Desk) -> None:
    @router.post("/conversation/add")
    def add(body: bodies.ConversationAdd, request: Request) -> bodies.Envelope:
        return _done(request, desk.add_messages(body.session_id, [one.model_dump() for one in body.messages]))

    @router.post("/conversation/query")
    def query(body: bodies.ConversationQuery, request: Request) -> bodies.Envelope:
        return _done(request, desk.list_messages(body.session_id, _span(body), body.limit, body.offset))

    @router.post("/conversation/search")
    def search(body: bodies.ConversationSearch, request: Request) -> bodies.Envelope:
        return _done(request, desk.search_messages(body.query, body.session_id or "", _span(body), body.limit))

    @router.post("/conversation/delete")
    def delete(body: bodies.ConversationDelete, request: Request) -> bodies.Envelope:
        if body.session_id is not None:
            return _done(request, desk.delete_session(body.session_id))
        return _done(request, desk.delete_messages(body.message_ids or []))


def _add_atomic(router: APIRouter, desk: V2Desk) -> None:
    @router.post("/atomic/update")
    def update(body: bodies.AtomicUpdate, request: Request) -> bodies.Envelope:
        return _done(request, desk.update_atom(body.id, body.content))

    @router.post("/atomic/query")
    def query(body: bodies.AtomicQuery, request: Request) -> bodies.Envelope:
        return _done(request, desk.list_atoms(body.type, _span(body), body.limit, body.offset))

    @router.post("/atomic/search")
    def search(body: bodies.AtomicSearch, request: Request) -> bodies.Envelope:
        return _done(request, desk.search_atoms(body.query, body.type, _span(body), body.limit))

    @router.post("/atomic/delete")
    def delete(body: bodies.AtomicDelete, request: Request) -> bodies.Envelope:
        return _done(request, desk.delete_atoms(body.ids))


def _add_documents(router: APIRouter, desk: V2Desk) -> None:
    @router.post("/scenario/ls")
    def list_scenes(body: bodies.ScenarioList, request: Request) -> bodies.Envelope:
        return _done(request, desk.list_scenes(body.path_prefix))

    @router.post("/scenario/read")
    def read_scene(body: bodies.ScenarioPath, request: Request) -> bodies.Envelope:
        return _done(request, desk.read_scene(body.path))

    @router.post("/scenario/write")
    def write_scene(body: bodies.ScenarioWrite, request: Request) -> bodies.Envelope:
        return _done(request, desk.write_scene(body.path, body.content, body.summary))

    @router.post("/scenario/rm")
    def remove_scene(body: bodies.ScenarioPath, request: Request) -> bodies.Envelope:
        return _done(request, desk.remove_scene(body.path))

    @router.post("/core/read")
    def read_persona(request: Request) -> bodies.Envelope:
        return _done(request, desk.read_persona())

    @router.post("/core/write")
    def write_persona(body: bodies.CoreWrite, request: Request) -> bodies.Envelope:
        return _done(request, desk.write_persona(body.content))


def _span(body: bodies.Window) -> Span:
    return Span(body.time_start, body.time_end)


def _done(request: Request, data: dict[str, Any]) -> bodies.Envelope:
    request_id = request.scope.get(REQUEST_ID) or f"req-{secrets.token_hex(8)}"
    return bodies.Envelope(request_id=request_id, data=data)
