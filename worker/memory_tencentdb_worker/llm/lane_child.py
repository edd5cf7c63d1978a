"""The lane: a process that alone imports litellm, makes one call at a time, and may be killed at any moment.

`python -m memory_tencentdb_worker.llm.lane_child` reads calls from stdin and writes answers to the real stdout; before
anything is imported, descriptor 1 is pointed at stderr, because litellm prints banners (field trap M14). It ends at
the end of its stdin, even in the middle of a call: a worker that died leaves nothing behind.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from typing import BinaryIO

from memory_tencentdb import faults
from memory_tencentdb_worker.llm.wire import LaneCall, LaneReady, read_call
from memory_tencentdb_worker.logs import hide_in_tracebacks


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    hide_in_tracebacks()
    calls: queue.SimpleQueue[LaneCall] = queue.SimpleQueue()
    threading.Thread(target=_read_calls, args=(sys.stdin.buffer, calls), name="lane-stdin", daemon=True).start()
    warning = _drop_unusable_proxies()
    try:
        from memory_tencentdb_worker.llm.binding import LiteLLMBinding
    except ImportError as problem:
        answers.write(LaneReady(error=f"litellm cannot be imported: {problem}").line())
        return
    binding = LiteLLMBinding()
    answers.write(LaneReady(warning=warning).line())
    while True:
        call = calls.get()
        faults.reach("lane.called")
        answer = binding.answer(call, now=int(time.time() * 1000))
        faults.reach("lane.answered")
        answers.write(answer.line())


def _read_calls(stdin: BinaryIO, calls: queue.SimpleQueue[LaneCall]) -> None:
    for line in stdin:
        calls.put(read_call(line))
    os._exit(0)  # a call may be running; nobody waits for it any more


def _drop_unusable_proxies() -> str:
    """Proxy settings that httpx cannot read would make every call fail (field traps M12, B23, B24)."""
    import httpx

    try:
        httpx.Client().close()
    except (ImportError, ValueError, httpx.InvalidURL) as problem:
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            del os.environ[name]
        return f"the proxy settings of the environment cannot be used and are ignored: {problem}"
    return ""


if __name__ == "__main__":
    main()
