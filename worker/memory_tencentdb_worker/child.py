"""A child process that speaks lines: requests on its stdin, answers on its stdout, everything else in a log.

What may hang, leak, print or crash lives in one: it can be killed at any moment and gives its memory back when idle.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import memory_tencentdb
import memory_tencentdb_worker
from memory_tencentdb import faults

_LOG_BYTES = 1_000_000
_SECRETS = ("TDAI_", "MEMORY_TENCENTDB_")
_FAULTS = (faults.VARIABLE, faults.MARK_VARIABLE)


def child_environment() -> dict[str, str]:
    """The worker's environment without our keys, with the places of our packages."""
    env = {name: text for name, text in os.environ.items() if name in _FAULTS or not name.startswith(_SECRETS)}
    packages = [str(Path(str(p.__file__)).parent.parent) for p in (memory_tencentdb_worker, memory_tencentdb)]
    search = [*dict.fromkeys(packages), *filter(None, [env.get("PYTHONPATH")])]
    return env | {"PYTHONPATH": os.pathsep.join(search), "PYTHONIOENCODING": "utf-8"}


class ChildProcess:
    """`python -m module arguments`, and the thread that reads its lines. `log` None: what it prints is dropped."""

    def __init__(self, module: str, arguments: list[str], env: dict[str, str], log: Path | None) -> None:
        self.ended = threading.Event()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        with _opened(log) as stderr:
            self.process = subprocess.Popen(  # noqa: S603 - a module of ours
                [sys.executable, "-P", "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=env,
                start_new_session=True,  # a Ctrl-C at the worker's terminal is the worker's to handle
            )
        self._reader = threading.Thread(target=self._read, name="child-reader", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        return not self.ended.is_set() and self.process.poll() is None

    def send(self, line: bytes) -> None:
        """A child that is gone is noticed by `next_line`."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def next_line(self, timeout_seconds: float) -> bytes | None:
        """None: nothing came in time, or the child has ended."""
        try:
            return self._lines.get(timeout=timeout_seconds)
        except queue.Empty:
            return None

    def kill(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                if hasattr(os, "killpg"):
                    os.killpg(self.process.pid, signal.SIGKILL)  # what it started goes with it
                else:
                    self.process.kill()

    def end(self) -> int:
        """Kills and reaps; there is nothing in the child worth a farewell. Returns the exit code."""
        self.kill()
        code = self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.ended.set()
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)


@contextlib.contextmanager
def _opened(log: Path | None) -> Iterator[IO[bytes] | int]:
    """Begun anew when it has grown large; nowhere without a path."""
    if log is None:
        yield subprocess.DEVNULL
        return
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    grown = log.exists() and log.stat().st_size > _LOG_BYTES
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if grown else os.O_APPEND)
    with os.fdopen(os.open(log, flags, 0o600), "ab") as stream:
        yield stream
