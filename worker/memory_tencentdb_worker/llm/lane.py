"""The worker's end of the lane: starts the child at the first call, holds it to its deadline, ends it when idle."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from pathlib import Path

from memory_tencentdb_worker.child import ChildProcess, child_environment
from memory_tencentdb_worker.config.model import LLMSettings
from memory_tencentdb_worker.endpoints import is_loopback, shown_address
from memory_tencentdb_worker.errors import LLMContent, LLMError, LLMTerminal, LLMTransient
from memory_tencentdb_worker.llm.thinking import thinking_fields
from memory_tencentdb_worker.llm.wire import LaneAnswer, LaneCall, read_answer, read_ready
from memory_tencentdb_worker.models import Completion, CompletionRequest

READY_SECONDS = 60.0  # importing litellm takes 3-8 s, much longer on a busy machine; not counted against the call
GRACE_SECONDS = 0.8  # the lane reports its own time-out within this; then it is killed
IDLE_SECONDS = 240.0
LANE_MODULE = "memory_tencentdb_worker.llm.lane_child"
_FOREIGN_ACCOUNT = ("OPENAI_ORG_ID", "OPENAI_ORGANIZATION", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL", "OPENAI_API_BASE")

log = logging.getLogger(__name__)


class LaneLLM:
    """An LLM in a child process. Any thread may call; calls wait for each other. `close` is final and interrupts a
    running call, which then raises LLMTransient."""

    def __init__(
        self, settings: LLMSettings, log_dir: Path | None = None, *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._settings, self._log_dir, self._idle_seconds = settings, log_dir, idle_seconds
        self._key = settings.api_key.get_secret_value()
        self._calls = threading.Lock()  # held for the length of a call
        self._child: ChildProcess | None = None
        self._closed = threading.Event()
        self._ids = itertools.count(1)
        self._rejected: dict[str, tuple[str, ...]] = {}  # by model: what its endpoint does not accept
        self._last_used = time.monotonic()

    @property
    def model(self) -> str:
        return self._settings.model

    @property
    def endpoint(self) -> str:
        if self._settings.base_url:
            return shown_address(self._settings.base_url)
        return self._settings.model.split("/", 1)[0] if "/" in self._settings.model else "litellm"

    @property
    def running(self) -> bool:
        child = self._child
        return child is not None and child.alive

    @property
    def pid(self) -> int | None:
        child = self._child
        return child.process.pid if child is not None and child.alive else None

    def complete(self, request: CompletionRequest) -> Completion:
        with self._calls:
            child = self._started()
            call = self._call(request)
            begun = time.monotonic()
            try:
                answer = self._exchange(child, call)
            finally:
                self._last_used = time.monotonic()
            elapsed_ms = round((time.monotonic() - begun) * 1000)
        if answer.rejected:
            self._rejected[call.model] = answer.rejected
        if answer.failure:
            raise self._error(answer)
        return Completion(
            text=answer.text,
            finish_reason=answer.finish_reason,
            model=call.model,
            tokens_in=answer.tokens_in,
            tokens_out=answer.tokens_out,
            cost_usd=answer.cost_usd,
            elapsed_ms=elapsed_ms,
        )

    def close(self) -> None:
        self._closed.set()
        child = self._child
        if child is not None:
            child.kill()  # without the lock: a call may be waiting for this very child
        with self._calls:
            self._end()

    # ------------------------------------------------------------------ the child

    def _started(self) -> ChildProcess:
        if self._closed.is_set():
            raise LLMTransient("the lane is closed", code="lane_closed")
        if self._child is not None and self._child.alive:
            return self._child
        self._end()
        child = self._child = ChildProcess(
            LANE_MODULE, [], self._environment(), self._log_dir and self._log_dir / "lane.log"
        )
        if self._closed.is_set():
            child.kill()  # close() came before there was a child to see
        line = child.next_line(READY_SECONDS)
        if line is None:
            code = self._end()
            raise LLMTransient(f"the lane did not start (exit code {code})", code="lane_start")
        ready = read_ready(line)
        if ready.warning:
            log.warning("lane: %s", ready.warning)
        if ready.error:
            self._end()
            raise LLMTerminal(ready.error, code="litellm_missing")
        self._last_used = time.monotonic()
        threading.Thread(target=self._retire, args=(child,), name="lane-idle", daemon=True).start()
        return child

    def _exchange(self, child: ChildProcess, call: LaneCall) -> LaneAnswer:
        limit_seconds = call.timeout_seconds + GRACE_SECONDS
        overrun = threading.Event()

        def cut_off() -> None:
            overrun.set()
            child.kill()

        deadline = threading.Timer(limit_seconds, cut_off)  # a frozen child would block even the sending
        deadline.start()
        try:
            child.send(call.line())
            line = child.next_line(limit_seconds + GRACE_SECONDS)
        finally:
            deadline.cancel()
        if line is not None:
            return read_answer(line)
        code = self._end()
        if self._closed.is_set():
            raise LLMTransient("the lane was closed during the call", code="lane_closed")
        if overrun.is_set():
            raise LLMTransient(f"no answer within {call.timeout_seconds:g} s; the lane was ended", code="timeout")
        raise LLMTransient(f"the lane died during the call (exit code {code})", code="lane_died")

    def _end(self) -> int | None:
        child, self._child = self._child, None
        return child.end() if child is not None else None

    def _retire(self, child: ChildProcess) -> None:
        """Ends an idle child: it holds some 200 MB. One thread a child, gone with it."""
        wait_seconds = self._idle_seconds
        while not child.ended.wait(max(wait_seconds, 0.05)):
            with self._calls:
                wait_seconds = self._last_used + self._idle_seconds - time.monotonic()
                if wait_seconds <= 0:
                    if self._child is child:
                        self._end()
                    return

    def _environment(self) -> dict[str, str]:
        """Our own keys stay here; a loopback endpoint is not looked for through a proxy."""
        env = child_environment()
        if self._settings.base_url:
            env = {name: value for name, value in env.items() if name not in _FOREIGN_ACCOUNT}
        if is_loopback(self._settings.base_url):
            env = {name: value for name, value in env.items() if not name.lower().endswith("_proxy")}
        return env | {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the import asks the network for prices
            "LITELLM_MODE": "PRODUCTION",  # else it reads a .env file from the current folder
            "LITELLM_LOG": "ERROR",
        }

    # ------------------------------------------------------------------ the call

    def _call(self, request: CompletionRequest) -> LaneCall:
        model = request.model or self._settings.model
        return LaneCall(
            id=next(self._ids),
            model=model,
            base_url=self._settings.base_url,
            api_key=self._key,
            system=_encodable(request.system),
            user=_encodable(request.user),
            max_tokens=request.max_tokens,
            timeout_seconds=request.timeout_seconds,
            json_mode=request.json_mode,
            fields=thinking_fields(self._settings.disable_thinking) | request.extra,
            without=self._rejected.get(model, ()),
        )

    def _error(self, answer: LaneAnswer) -> LLMError:
        message = f"{self.endpoint}: {answer.message}"
        if answer.failure == "transient":
            return LLMTransient(message, retry_after_seconds=answer.retry_after_seconds, code=answer.code)
        if answer.failure == "terminal":
            return LLMTerminal(f"{message} (model {self.model})", code=answer.code)
        return LLMContent(message, raw=answer.text, code=answer.code)


def _encodable(text: str) -> str:
    """A lone surrogate cannot travel as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")
