"""The arms of a recall run beside the request's thread, so that a slow store or embedder costs its deadline only.

A thread that hangs cannot be stopped. It stays counted, and when all are taken, further work is refused instead of
piling up behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from memory_tencentdb_worker.errors import Busy

T = TypeVar("T")


class ArmPool:
    """A bounded number of daemon threads, started when first needed."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._taken = 0
        self._closed = False

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Runs `work` soon. Raises Busy when every thread is taken."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed or self._taken >= self._size:
                raise Busy(f"all {self._size} threads of {self._name} are taken")
            self._taken += 1
            if self._threads < self._taken:
                self._threads += 1
                threading.Thread(target=self._run, name=f"{self._name}-{self._threads}", daemon=True).start()
            self._work.put((future, work))
        return future

    def close(self) -> None:
        """Lets the threads end after their present work; does not wait for one that hangs. Safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for _ in range(self._threads):
                self._work.put(None)

    def _run(self) -> None:
        while (entry := self._work.get()) is not None:
            future, work = entry
            try:
                value = work()
            except BaseException as error:  # noqa: BLE001 - top of a thread: whoever waits for the future gets it
                self._give_back()
                future.set_exception(error)
            else:
                self._give_back()
                future.set_result(value)

    def _give_back(self) -> None:
        with self._lock:
            self._taken -= 1
