"""A real worker process in a home of its own, and a plain HTTP client for its socket. For tests and benchmarks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parent.parent
FAST_PIPELINE = {
    "everyNConversations": 1,
    "l1IdleTimeoutSeconds": 1,
    "l2DelayAfterL1Seconds": 0,
    "l2MinIntervalSeconds": 0,
}


class WorkerProcess:
    """Starts `python -m memory_tencentdb_worker run`; `kill` and `stop` act on the pid that we started."""

    def __init__(
        self, home: Path, config: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        if config is not None:
            (home / "config.json").write_text(json.dumps(config), encoding="utf-8")
        self.env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "worker")]), **(env or {})}
        for name in ("TDAI_DATA_DIR", "HERMES_HOME"):
            self.env.pop(name, None)
        self.env.update(env or {})
        if "embedding" not in (config or {}).get("memory", {}):  # else an installed offline model would join in
            self.env.setdefault("TDAI_EMBEDDING_PROVIDER", "none")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, timeout_seconds: float = 20) -> float:
        """Returns the seconds from spawn to the first answer of /health."""
        started = time.monotonic()
        errors = (self.home / "test-worker.err").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "memory_tencentdb_worker", "run", "--home", str(self.home)],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
        )
        errors.close()
        while time.monotonic() - started < timeout_seconds:
            if self.process.poll() is not None:
                raise AssertionError(f"worker ended with {self.process.returncode}: {self.errors()}")
            try:
                if self.get("/health").status_code == 200:
                    return time.monotonic() - started
            except (OSError, httpx.HTTPError, ValueError):
                time.sleep(0.01)
        raise AssertionError(f"worker did not answer in {timeout_seconds} s: {self.errors()}")

    def errors(self) -> str:
        return (self.home / "test-worker.err").read_text(encoding="utf-8", errors="replace")[-3000:]

    @property
    def endpoint(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.home / "worker.json").read_text(encoding="utf-8"))
        if self.process is not None and facts["pid"] != self.process.pid:
            raise ValueError("the file is a former worker's")
        return facts

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def client(self, timeout_seconds: float = 30) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=self.endpoint["socket"])
        return httpx.Client(transport=transport, base_url="http://worker", timeout=timeout_seconds)

    def get(self, path: str) -> httpx.Response:
        with self.client() as client:
            return client.get(path)

    def post(self, path: str, body: Mapping[str, Any], timeout_seconds: float = 60) -> dict[str, Any]:
        with self.client(timeout_seconds) as client:
            answer = client.post(path, json=dict(body))
        assert answer.status_code < 300, f"{path}: {answer.status_code} {answer.text}"
        document: dict[str, Any] = answer.json()
        return document

    def capture(self, user: str, assistant: str = "Noted.", session: str = "s1", **more: Any) -> dict[str, Any]:
        body = {"user_content": user, "assistant_content": assistant, "session_key": session, **more}
        return self.post("/capture", body)

    def flush(self, wait_seconds: float = 60) -> dict[str, Any]:
        return self.post("/v1/flush", {"wait_seconds": wait_seconds}, timeout_seconds=wait_seconds + 30)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self) -> int:
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode
