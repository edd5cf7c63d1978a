"""From the error tree to HTTP: a status, `{"error", "code"}`, and never a trace or the text of a foreign exception."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from memory_tencentdb_worker.errors import (
    Busy,
    ConfigError,
    EmbeddingError,
    InvalidField,
    InvalidInput,
    LLMError,
    NotFound,
    Refused,
    StoreError,
    StoreFull,
    WorkerError,
)

log = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 1

_STATUS: tuple[tuple[type[WorkerError], int], ...] = (
    (InvalidField, 422),
    (InvalidInput, 400),
    (NotFound, 404),
    (Refused, 409),
    (Busy, 429),
    (StoreFull, 507),
    (StoreError, 503),
    (LLMError, 503),
    (EmbeddingError, 503),
    (ConfigError, 503),
)
_CODES = {400: "invalid", 404: "not_found", 405: "method_not_allowed", 413: "too_large", 415: "not_json"}
_WRONG_SHAPE = frozenset(
    {"json_invalid", "dataclass_type", "dict_type", "model_attributes_type", "model_type", "missing"}
)


class ErrorBody(BaseModel):
    """For the description of the routes; `fields` where fields were refused."""

    error: str
    code: str


def error_response(status: int, code: str, message: str, **more: Any) -> Response:
    """The error body of every route. Busy answers say when to come again."""
    headers: Mapping[str, str] = {"retry-after": str(RETRY_AFTER_SECONDS)} if status == 429 else {}
    body = json.dumps({"error": message, "code": code, **more})  # ASCII: holds whatever a caller sent
    return Response(body, status, headers=headers, media_type="application/json")


def add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(WorkerError, _known)
    app.add_exception_handler(RequestValidationError, _refused_body)
    app.add_exception_handler(HTTPException, _routing)


def status_of(error: WorkerError) -> int:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


async def _known(request: Request, error: Exception) -> Response:
    assert isinstance(error, WorkerError)
    status = status_of(error)
    if status >= 500:
        log.warning("%s %s: %s (%s)", request.method, request.scope["route"].path, error, error.code)
    more = {"fields": [{"field": error.field, "problem": error.problem}]} if isinstance(error, InvalidField) else {}
    return error_response(status, error.code, str(error), **more)


async def _refused_body(request: Request, error: Exception) -> Response:
    """What is not a JSON object is 400; an object with wrong fields is 422 and names them."""
    assert isinstance(error, RequestValidationError)
    problems = error.errors()
    for problem in problems:
        if problem["type"] == "json_invalid":
            return error_response(400, "malformed_json", "the body is not valid JSON")
        if tuple(problem["loc"]) == ("body",) and problem["type"] in _WRONG_SHAPE:
            return error_response(400, "invalid", "the body must be a JSON object")
    fields = [{"field": _path(problem["loc"]), "problem": str(problem["msg"])} for problem in problems]
    named = ", ".join(sorted({field["field"] for field in fields}))
    return error_response(422, "invalid_fields", f"these fields cannot be used: {named}", fields=fields)


async def _routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "refused")
    messages = {404: "there is no such route", 405: "this route does not take this method"}
    message = messages.get(error.status_code, "the body is not valid JSON" if error.status_code == 400 else "refused")
    response = error_response(error.status_code, code, message)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def _path(location: tuple[int | str, ...]) -> str:
    """`("body", "messages", 0)` as `messages.0`: the first part only says where the field stood."""
    return ".".join(str(part) for part in location[1:]) or "body"
