"""The TCP listener of a real worker: who is let in, what a browser may read, and what the Unix socket keeps."""

from __future__ import annotations

import logging
import math
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from memory_tencentdb_worker.api.cors import CrossOrigin
from memory_tencentdb_worker.api.rate import BURST, RateLimit
from memory_tencentdb_worker.config.model import Server
from memory_tencentdb_worker.gateway import listen, log_posture
from memory_tencentdb_worker.peer import is_own
from memory_tencentdb_worker.process import idle_seconds
from processes import WorkerProcess

KEY = "k-5f1e0c"
RECALL = {"query": "tea", "session_key": "s"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Gateway:
    def __init__(self, home: Path, **env: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.worker = WorkerProcess(home, {}, {"TDAI_GATEWAY_PORT": str(port), **env})
        self.worker.start()

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.request(method, self.url + path, json=body, headers=named, timeout=20)

    def log(self) -> str:
        return (self.worker.home / "logs" / "worker.log").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("locked") / "home"
    gateway = Gateway(home, TDAI_GATEWAY_API_KEY=KEY, TDAI_CORS_ORIGINS="https://app.example,https://b.example")
    yield gateway
    gateway.worker.stop()


@pytest.fixture(scope="module")
def open_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("open") / "home")
    yield gateway
    gateway.worker.stop()


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", f"Bearer {KEY}x", f"Basic {KEY}", KEY])
def test_every_route_wants_the_key(locked: Gateway, given: str) -> None:
    for method, path in [("POST", "/recall"), ("GET", "/v1/status"), ("GET", "/openapi.json"), ("GET", "/nowhere"),
                         ("POST", "/health"), ("POST", "/v1/forget")]:  # fmt: skip
        answer = locked.ask(method, path, RECALL if method == "POST" else None, authorization=given)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert KEY not in answer.text


def test_the_key_opens_and_health_needs_none(locked: Gateway) -> None:
    assert locked.ask("POST", "/recall", RECALL, authorization=f"Bearer {KEY}").status_code == 200
    assert locked.ask("POST", "/recall", RECALL, authorization=f"bearer   {KEY}").status_code == 200
    assert locked.ask("GET", "/health").json()["status"] == "ok"
    assert locked.ask("HEAD", "/health").status_code == 200
    assert locked.ask("GET", "/nowhere", authorization=f"Bearer {KEY}").status_code == 404


def test_what_belongs_to_this_machine_stays_on_the_unix_socket(locked: Gateway) -> None:
    for path in ("/v1/stop", "/v1/hello"):
        answer = locked.ask("POST", path, {}, authorization=f"Bearer {KEY}")
        assert (answer.status_code, answer.json()["code"]) == (403, "local_only")
    assert locked.worker.post("/recall", RECALL)["state"], "the Unix socket needs no key"


def test_a_listed_origin_may_read_the_answers_and_no_other(locked: Gateway) -> None:
    answer = locked.ask("OPTIONS", "/recall", origin="https://app.example")
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["access-control-allow-methods"] == "GET, POST, OPTIONS"
    assert answer.headers["access-control-allow-headers"] == "Content-Type, Authorization"
    assert answer.headers["vary"] == "Origin"
    refused = locked.ask("POST", "/recall", RECALL, origin="https://app.example")
    assert refused.headers["access-control-allow-origin"] == "https://app.example", "it may read why"
    other = locked.ask("OPTIONS", "/recall", origin="https://evil.example")
    assert (other.status_code, other.headers["vary"]) == (204, "Origin")
    assert "access-control-allow-origin" not in other.headers


def test_without_a_list_there_are_no_cors_headers_and_a_star_admits_all() -> None:
    assert CrossOrigin([]).headers(b"https://a.example") == []
    assert (b"access-control-allow-origin", b"*") in CrossOrigin(["*"]).headers(None)


def test_a_keyless_port_serves_programs_of_this_machine_and_no_web_page(open_one: Gateway) -> None:
    assert open_one.ask("POST", "/recall", RECALL).status_code == 200
    assert open_one.ask("POST", "/recall", RECALL, host="localhost:1").status_code == 200
    assert open_one.ask("POST", "/recall", RECALL, origin="https://evil.example").json()["code"] == "origin"
    assert open_one.ask("POST", "/recall", RECALL, host="evil.example").json()["code"] == "host"
    assert "access-control-allow-origin" not in open_one.ask("GET", "/health").headers


def test_every_answer_has_a_request_id(open_one: Gateway) -> None:
    assert open_one.ask("GET", "/health").headers["x-request-id"].startswith("req-")
    assert open_one.ask("GET", "/nowhere", x_request_id="mine-7").headers["x-request-id"] == "mine-7"
    assert open_one.ask("GET", "/health", x_request_id="a b").headers["x-request-id"].startswith("req-")
    assert open_one.worker.get("/v1/status").headers["x-request-id"]


def test_a_body_over_one_mebibyte_is_413_and_a_form_is_415(open_one: Gateway) -> None:
    assert open_one.ask("POST", "/capture", {"user_content": "x" * (1 << 20)}).status_code == 413
    with httpx.Client() as client:
        form = client.post(f"{open_one.url}/recall", content=b"{}", headers={"content-type": "text/plain"})
    assert form.status_code == 415


def test_who_asks_too_often_is_told_when_to_come_again(open_one: Gateway) -> None:
    """All requests in one piece, so that no client is too slow to be too fast."""
    line = socket.create_connection(("127.0.0.1", int(open_one.url.rpartition(":")[2])), timeout=20)
    with line, line.makefile("rb") as answers:
        line.sendall(b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\n\r\n" * int(BURST) * 3)
        got = answers.read().decode()
    refused = got[got.index("HTTP/1.1 429") :]
    assert '"rate_limited"' in refused
    assert "retry-after: 1" in refused
    assert open_one.ask("GET", "/health").status_code == 200
    assert open_one.worker.get("/v1/status").status_code == 200, "others are not slowed down"


def test_the_socket_names_its_protocol_so_that_asyncio_sends_small_answers_at_once() -> None:
    listening = listen(Server(port=free_port()))
    with listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_client_gets_its_rate_back_with_time_and_does_not_use_up_anothers() -> None:
    limit = RateLimit(per_second=1, burst=2)
    assert [limit.admit("a", 0.0) for _ in range(3)] == [True, True, False]
    assert limit.admit("b", 0.0)
    assert limit.admit("a", 1.0)
    assert not limit.admit("a", 1.0)


def test_status_and_log_say_how_open_the_gateway_is(locked: Gateway, open_one: Gateway) -> None:
    assert locked.worker.get("/v1/status").json()["worker"]["gateway"] == locked.url
    assert "Security posture: auth=ENABLED (Bearer) host=127.0.0.1 cors=allowlist(2)" in locked.log()
    assert KEY not in locked.log()
    assert "Security posture: auth=disabled host=127.0.0.1 cors=no-headers" in open_one.log()
    assert "TDAI_GATEWAY_API_KEY is NOT set" in open_one.log()


def test_a_wildcard_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_posture(Server(cors_origins=["*"]))
    assert "cors=wildcard(*)" in caplog.text
    assert any(record.levelno == logging.WARNING and "every web page" in record.message for record in caplog.records)


def test_others_are_not_listened_to_without_a_key(tmp_path: Path) -> None:
    env = {"TDAI_GATEWAY_PORT": str(free_port()), "TDAI_GATEWAY_HOST": "0.0.0.0"}
    worker = WorkerProcess(tmp_path / "home", {}, env)
    command = [sys.executable, "-m", "memory_tencentdb_worker", "run", "--home", str(worker.home)]
    ran = subprocess.run(command, env=worker.env, capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == 3
    assert "server.apiKey must be set" in ran.stderr


def test_a_port_in_use_costs_the_gateway_only_and_is_listed(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        worker = WorkerProcess(tmp_path / "home", {"server": {"port": taken.getsockname()[1]}})
        worker.start()
        try:
            status = worker.get("/v1/status").json()
            assert worker.capture("I drink tea.")["l0_recorded"] == 2
        finally:
            worker.stop()
    assert status["worker"]["gateway"] is None
    assert [error["key"] for error in status["config"]["errors"]] == ["server.port"]
    assert status["state"] == "degraded"


def test_a_gateway_leaves_when_idle_only_if_told_to(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "home", MEMORY_TENCENTDB_IDLE_SECONDS="1")
    assert gateway.worker.process is not None
    assert gateway.worker.process.wait(20) == 0


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_is_dropped_on_the_unix_socket(tmp_path: Path) -> None:
    """Socket and directory are opened to all here, so that nothing but the look at the peer is left."""
    code = (
        "import os, socket, sys\n"
        "os.chdir(os.path.dirname(sys.argv[1])); os.setgroups([]); os.setuid(int(sys.argv[2]))\n"
        "line = socket.socket(socket.AF_UNIX); line.settimeout(20); line.connect(os.path.basename(sys.argv[1]))\n"
        "try:\n"
        "    line.sendall(b'GET /v1/status HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n'); print(len(line.recv(100)))\n"
        "except ConnectionError:\n"
        "    print(0)\n"
    )
    with tempfile.TemporaryDirectory(prefix="mt-") as folder:
        worker = WorkerProcess(tmp_path / "home", {}, {"XDG_RUNTIME_DIR": folder})
        worker.start()
        try:
            path = Path(worker.endpoint["socket"])
            path.chmod(0o777)
            path.parent.chmod(0o711)
            users = ("0", "65534")
            got = [subprocess.check_output([sys.executable, "-c", code, str(path), uid], text=True) for uid in users]
        finally:
            worker.stop()
    assert int(got[0]) > 0
    assert int(got[1]) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")
def test_a_connection_of_ones_own_is_known_as_such() -> None:
    left, right = socket.socketpair()
    with left, right:
        assert is_own(left)


def test_a_gateway_stays_however_long_nobody_asks() -> None:
    assert idle_seconds({}, math.inf) == math.inf
    assert idle_seconds({"MEMORY_TENCENTDB_IDLE_SECONDS": "5"}, math.inf) == 5
