"""The HTTP application: the gate, the routes, the error bodies. Served on the Unix socket by the composition root."""

from __future__ import annotations

from fastapi import FastAPI

from memory_tencentdb.protocol import VERSION
from memory_tencentdb_worker.api.errors import add_error_handlers
from memory_tencentdb_worker.api.gate import Gate
from memory_tencentdb_worker.api.gateway import gateway_routes
from memory_tencentdb_worker.api.health import health_routes
from memory_tencentdb_worker.api.owner import owner_routes
from memory_tencentdb_worker.api.replay import replay_routes
from memory_tencentdb_worker.api.v1 import v1_routes
from memory_tencentdb_worker.service.facade import MemoryService
from memory_tencentdb_worker.service.owner import OwnerDesk
from memory_tencentdb_worker.service.replay import ReplayDesk


def build_app(service: MemoryService, replay: ReplayDesk | None = None, owner: OwnerDesk | None = None) -> FastAPI:
    """OpenAPI at `/openapi.json`; no pages of documentation, which would load scripts from elsewhere."""
    app = FastAPI(title="memory_tencentdb", version=VERSION, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.include_router(health_routes(service))
    app.include_router(gateway_routes(service))
    app.include_router(v1_routes(service))
    if owner is not None:
        app.include_router(owner_routes(owner))
    if replay is not None:
        app.include_router(replay_routes(replay))
    add_error_handlers(app)
    app.add_middleware(Gate, on_request=service.touch)
    return app
