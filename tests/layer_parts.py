"""What tests of layers and pipeline work with: a model that answers by script, and a clock that is moved by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from memory_tencentdb.wire import CaptureRequest, CaptureResponse
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import LLMError
from memory_tencentdb_worker.layers.l0_turns import capture_turn
from memory_tencentdb_worker.layers.parts import Parts
from memory_tencentdb_worker.models import Completion, CompletionRequest, JobKind, Lease
from memory_tencentdb_worker.store.base import Store

START = 1_767_225_600_000  # 2026-01-01T00:00:00Z
MINUTE = 60_000

Reply = Any  # a JSON value, a raw text, an error to raise, or a function of the request


@dataclass
class Cut:
    """An answer that hit the token limit."""

    text: str


@dataclass
class ScriptedLLM:
    """Answers each task with its replies in order; the last one is given again and again. Without a script: nothing
    worth remembering."""

    model: str = "scripted"
    endpoint: str = "nowhere"
    replies: dict[str, list[Reply]] = field(default_factory=dict)
    requests: list[CompletionRequest] = field(default_factory=list)
    closed: bool = False

    def script(self, task: str, *replies: Reply) -> None:
        self.replies[task] = list(replies)

    def asked(self, task: str) -> list[CompletionRequest]:
        return [request for request in self.requests if request.task == task]

    def complete(self, request: CompletionRequest) -> Completion:
        self.requests.append(request)
        replies = self.replies.get(request.task, [[]])
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        reply = reply(request) if callable(reply) else reply
        if isinstance(reply, LLMError):
            raise reply
        cut = isinstance(reply, Cut)
        text = reply.text if isinstance(reply, Cut) else reply if isinstance(reply, str) else json.dumps(reply)
        return Completion(text, "length" if cut else "stop", self.model, 10, 5, 0.0, 1)

    def close(self) -> None:
        self.closed = True


def message_ids(request: CompletionRequest) -> dict[str, str]:
    """Text -> id of the lines of the <messages> section."""
    body = section(request, "messages")
    return {text: id for id, text in re.findall(r"^\[(l0_\w+)\] \[\w+\] \[[^\]]+\]: (.*)$", body, re.M)}


def section(request: CompletionRequest, name: str) -> str:
    found = re.search(rf"^<{name}>\n(.*?)^</{name}>$", request.user, re.M | re.S)
    assert found, f"no <{name}> in {request.user}"
    return found[1]


def records(request: CompletionRequest, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in section(request, name).splitlines()]


def remember(content: str, *, said: str = "", type: str = "persona", **more: Any) -> Callable[[CompletionRequest], Any]:
    """An extraction answer with one memory that rests on the message with the text `said` (default: the first)."""

    def reply(request: CompletionRequest) -> Any:
        ids = message_ids(request)
        source = ids[said] if said else next(iter(ids.values()))
        memory = {"content": content, "type": type, "priority": 80, "source_message_ids": [source], **more}
        return {"scenes": [{"scene_name": "talking", "message_ids": list(ids.values()), "memories": [memory]}]}

    return reply


def reply_to_new(action: str, **fields: Any) -> Callable[[CompletionRequest], Any]:
    """A reconcile answer for the first new memory; its targets are all related ids unless given."""

    def reply(request: CompletionRequest) -> Any:
        new = records(request, "new")[0]
        return [{"record_id": new["id"], "action": action, "target_ids": new["related"], **fields}]

    return reply


def capture(
    store: Store, config: Config, user: object, assistant: object = "ok", *, now: int = START, **more: Any
) -> CaptureResponse:
    request = CaptureRequest(user, assistant, **{"session_key": "s1", **more})
    return capture_turn(request, store, config, UTC, now)


def lease(store: Store, kind: JobKind, now: int, scope: str = "") -> Lease:
    """The job that is pending for this kind, whatever its time."""
    store.make_due(now, scope=scope, expedite=False)
    found = store.lease_job([kind], now, 300_000, "test")
    assert found is not None, f"no {kind} job is due"
    return found


def parts_of(store: Store, config: Config, llm: ScriptedLLM | None) -> Parts:
    return Parts(store, llm, None, config, UTC)
