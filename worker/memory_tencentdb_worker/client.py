"""A small typed client for programs that are no Hermes: the manual's methods and time-outs, over TCP or Unix socket.

`with MemoryClient(url, api_key=key) as memory: memory.recall("Where do I live?", session_key="chat-2").context`
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter

from memory_tencentdb import protocol, wire
from memory_tencentdb.errors import RequestRefused, WorkerSilent, WorkerTrouble, WorkerUnreachable

DEFAULT_URL = "http://127.0.0.1:8420"
HEALTH_SECONDS = 3.0
ANSWER_SECONDS = 10.0
KEY_VARIABLES = ("MEMORY_TENCENTDB_GATEWAY_API_KEY", "TDAI_GATEWAY_API_KEY")

Answer = TypeVar("Answer")


class MemoryClient:
    """Thread-safe; keeps connections until `close`. Proxies of the environment are not used.

    Every method raises WorkerUnreachable (nothing answers), WorkerSilent (not in time), WorkerTrouble (5xx, or 429 with
    `retry_after_seconds`) or RequestRefused (4xx). Nothing is sent twice: `capture` again with the same `turn_id` is
    harmless, so a caller that was not answered may.
    """

    def __init__(
        self, base_url: str = DEFAULT_URL, api_key: str | None = None, *, socket: str | Path | None = None
    ) -> None:
        """`socket` is the worker's Unix socket, as `memory-tencentdb status` prints it, and goes before `base_url`.
        `api_key` None is looked up in the environment, as the manual says; "" is none."""
        key = _key_of_environment() if api_key is None else api_key.strip()
        self._client = httpx.Client(
            base_url="http://worker" if socket is not None else base_url,
            transport=None if socket is None else httpx.HTTPTransport(uds=os.fspath(socket)),
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=ANSWER_SECONDS,
            trust_env=False,
        )

    def health(self) -> dict[str, Any]:
        document: dict[str, Any] = self._ask("GET", protocol.HEALTH, None, HEALTH_SECONDS)
        return document

    def recall(
        self, query: str, session_key: str, *, session_id: str = "", user_id: str = "", max_tokens: int | None = None
    ) -> wire.RecallResponse:
        """What an agent should be given before it answers `query`: `context`, with a receipt."""
        request = wire.RecallRequest(query, session_key, session_id, user_id, max_tokens)
        return self._post(protocol.RECALL, request, wire.RecallResponse)

    def capture(
        self,
        user_content: str,
        assistant_content: str,
        session_key: str,
        *,
        session_id: str = "",
        user_id: str = "",
        messages: list[dict[str, Any]] | None = None,
        turn_id: str = "",
        at: str | int | None = None,
    ) -> wire.CaptureResponse:
        """The return means that the turn is durable."""
        request = wire.CaptureRequest(
            user_content, assistant_content, session_key, session_id, user_id, messages, turn_id, at
        )
        return self._post(protocol.CAPTURE, request, wire.CaptureResponse)

    def search_memories(
        self, query: str, *, limit: int = 5, type: str | None = None, scene: str | None = None, user_id: str = ""
    ) -> wire.SearchResponse:
        request = wire.MemorySearchRequest(query, limit, type, scene, user_id)
        return self._post(protocol.SEARCH_MEMORIES, request, wire.SearchResponse)

    def search_conversations(
        self, query: str, *, limit: int = 5, session_key: str = "", user_id: str = ""
    ) -> wire.SearchResponse:
        request = wire.ConversationSearchRequest(query, limit, session_key, user_id)
        return self._post(protocol.SEARCH_CONVERSATIONS, request, wire.SearchResponse)

    def end_session(self, session_key: str, *, user_id: str = "") -> wire.SessionEndResponse:
        """What the session still waits for is due now."""
        return self._post(protocol.SESSION_END, wire.SessionEndRequest(session_key, user_id), wire.SessionEndResponse)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> MemoryClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _post(self, path: str, request: Any, kind: type[Answer]) -> Answer:
        return TypeAdapter(kind).validate_python(self._ask("POST", path, asdict(request), ANSWER_SECONDS))

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, seconds: float) -> Any:
        try:
            answer = self._client.request(method, path, json=body, timeout=seconds)
        except httpx.ConnectTimeout as error:
            raise WorkerUnreachable(f"no connection to {self._client.base_url} within {seconds:g} s") from error
        except httpx.TimeoutException as error:
            raise WorkerSilent(f"no answer to {method} {path} within {seconds:g} s") from error
        except httpx.TransportError as error:
            raise WorkerUnreachable(f"nothing answers at {self._client.base_url}: {error}") from error
        document = _document(answer)
        if answer.is_success and document is not None:
            return document
        said = document or {}
        code, message = str(said.get("code", "not_ours")), str(said.get("error", answer.reason_phrase))
        if answer.status_code >= 500 or answer.status_code == 429 or answer.is_success:
            raise WorkerTrouble(answer.status_code, code, message, _retry_after(answer))
        raise RequestRefused(answer.status_code, code, message)


def _document(answer: httpx.Response) -> dict[str, Any] | None:
    """None: what answered is no worker of ours, or something stands before it."""
    try:
        document = answer.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _retry_after(answer: httpx.Response) -> float | None:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdigit() else None


def _key_of_environment() -> str:
    return next((key for name in KEY_VARIABLES if (key := os.environ.get(name, "").strip())), "")
