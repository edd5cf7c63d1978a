"""The route of `doctor`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from memory_tencentdb.protocol import DOCTOR
from memory_tencentdb_worker.service.doctor import Doctor


def doctor_routes(doctor: Doctor) -> APIRouter:
    router = APIRouter()

    @router.post(DOCTOR)
    def examine(*, repair: bool = False, quick: bool = False) -> dict[str, Any]:
        return doctor.examine(repair=repair, quick=quick)

    return router
