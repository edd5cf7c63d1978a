"""The HTTP application: the gate, the routes, the error bodies. Served on the Unix socket by the composition root."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from memory_tencentdb.protocol import VERSION
from memory_tencentdb_worker.api.doctor import doctor_routes
from memory_tencentdb_worker.api.errors import ErrorBody, add_error_handlers
from memory_tencentdb_worker.api.gate import Gate
from memory_tencentdb_worker.api.gateway import gateway_routes
from memory_tencentdb_worker.api.health import health_routes
from memory_tencentdb_worker.api.metrics import Meter, RequestCounts, metrics_routes
from memory_tencentdb_worker.api.owner import owner_routes
from memory_tencentdb_worker.api.quarantine import quarantine_routes
from memory_tencentdb_worker.api.replay import replay_routes
from memory_tencentdb_worker.api.v1 import v1_routes
from memory_tencentdb_worker.api.v2 import v2_routes
from memory_tencentdb_worker.api.v2_bodies import ErrorEnvelope
from memory_tencentdb_worker.service.doctor import Doctor
from memory_tencentdb_worker.service.facade import MemoryService
from memory_tencentdb_worker.service.owner import OwnerDesk
from memory_tencentdb_worker.service.quarantine import QuarantineDesk
from memory_tencentdb_worker.service.replay import ReplayDesk
from memory_tencentdb_worker.service.v2 import V2Desk

_ERRORS: dict[int | str, dict[str, Any]] = {"default": {"model": ErrorBody, "description": "refused or failed"}}
_V2_ERRORS: dict[int | str, dict[str, Any]] = {"default": {"model": ErrorEnvelope, "description": "refused or failed"}}


def build_app(
    service: MemoryService,
    replay: ReplayDesk | None = None,
    owner: OwnerDesk | None = None,
    quarantine: QuarantineDesk | None = None,
    doctor: Doctor | None = None,
    v2: V2Desk | None = None,
) -> FastAPI:
    """OpenAPI at `/openapi.json`; no pages of documentation, which would load scripts from elsewhere."""
    app = FastAPI(
        title="memory_tencentdb",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=_ERRORS,
    )
    app.include_router(health_routes(service))
    app.include_router(gateway_routes(service))
    app.include_router(v1_routes(service))
    counts = RequestCounts()
    app.include_router(metrics_routes(service, counts))
    if owner is not None:
        app.include_router(owner_routes(owner))
    if quarantine is not None:
        app.include_router(quarantine_routes(quarantine))
    if doctor is not None:
        app.include_router(doctor_routes(doctor))
    if replay is not None:
        app.include_router(replay_routes(replay))
    if v2 is not None:
        app.include_router(v2_routes(v2), responses=_V2_ERRORS)
    add_error_handlers(app)
    app.add_middleware(Gate, on_request=service.touch)
    app.add_middleware(Meter, counts=counts)  # the last one added is the outermost
    return app
