"""The HTTP surface as any client may (mis)use it: real application, real uvicorn, real Unix socket."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pytest

from memory_tencentdb.protocol import BODY_LIMIT_BYTES
from memory_tencentdb_worker.api.gate import AT_WORK, IN_QUEUE
from memory_tencentdb_worker.errors import StoreError, StoreFull
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from service_parts import MARCH_5, Built, Caller, build_service, served


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = open_store(tmp_path / "data", MARCH_5)
    yield opened
    opened.close()


@pytest.fixture
def built(store: SqliteStore, tmp_path: Path) -> Built:
    return build_service(store, tmp_path)


@pytest.fixture
def caller(built: Built) -> Iterator[Caller]:
    with served(built.service) as made:
        yield made


@pytest.mark.parametrize("body", [b"{", b"", b"\xff\xfe", b"nonsense", b"[" * 10_000])
def test_malformed_json_is_400(caller: Caller, body: bytes) -> None:
    answer = caller.send("POST", "/recall", body)
    assert answer.status == 400
    assert set(answer.json) == {"error", "code"}


@pytest.mark.parametrize("body", ["[]", '"text"', "3", "null", "true"])
def test_a_body_that_is_no_object_is_400(caller: Caller, body: str) -> None:
    assert caller.send("POST", "/capture", body.encode()).status == 400


def test_wrong_and_missing_fields_are_422_and_named(caller: Caller) -> None:
    answer = caller.post("/recall", query=["x"], session_key="k", max_tokens="many")
    assert answer.status == 422
    assert {field["field"] for field in answer.json["fields"]} == {"query", "max_tokens"}
    assert caller.post("/capture", user_content="x", assistant_content="y").json["fields"][0]["field"] == "session_key"


def test_unknown_route_is_404_and_wrong_method_405(caller: Caller) -> None:
    assert (caller.get("/nowhere").status, caller.get("/nowhere").json["code"]) == (404, "not_found")
    answer = caller.get("/recall")
    assert (answer.status, answer.json["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"


def test_deep_nesting_and_double_keys_leave_the_worker_up(caller: Caller) -> None:
    nested = b'{"query": "x", "session_key": "k", "extra": ' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    assert caller.send("POST", "/recall", nested).status == 400
    assert caller.send("POST", "/recall", b'{"query": "a", "query": "b", "session_key": "k"}').status == 200
    assert caller.get("/health").status == 200


def test_a_body_over_the_limit_is_refused_by_its_announced_length(caller: Caller) -> None:
    answer = caller.send("POST", "/capture", b"{}", {"content-length": str(10**9), "content-type": "application/json"})
    assert (answer.status, answer.json["code"]) == (413, "too_large")


def test_an_endless_chunked_body_is_refused_while_it_arrives(caller: Caller) -> None:
    sent = 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(64):
            sent += 65_536
            yield b"x" * 65_536

    try:
        status = caller.send("POST", "/capture", chunks(), {"transfer-encoding": "chunked"}, chunked=True).status
    except (BrokenPipeError, ConnectionResetError):
        status = 413  # refused and closed before we had sent it all
    assert status == 413
    assert sent > BODY_LIMIT_BYTES
    assert caller.get("/health").status == 200


def test_a_body_just_below_the_limit_is_stored(caller: Caller, store: SqliteStore) -> None:
    text = "word " * 200_000
    assert len(text) < BODY_LIMIT_BYTES
    answer = caller.post("/capture", user_content=text, assistant_content="ok", session_key="k", turn_id="big")
    assert (answer.status, answer.json["l0_recorded"]) == (200, 2)
    assert len(store.session_tail("", "k", 2)[0].text) == len(text.strip())


def test_half_a_request_does_nothing(caller: Caller, store: SqliteStore) -> None:
    body = json.dumps({"user_content": "half", "assistant_content": "", "session_key": "k"}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(str(caller.path))
        line.sendall(b"POST /capture HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (len(body) + 1) + body)
    assert caller.get("/health").status == 200
    assert store.counts().turns == 0


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded"])
def test_on_the_unix_socket_any_content_type_is_read_as_json(caller: Caller, kind: str) -> None:
    body = json.dumps({"query": "x", "session_key": "k"}).encode()
    assert caller.send("POST", "/recall", body, {"content-type": kind}).status == 200


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(StoreError("cannot write"), 503, "store"), (StoreFull("no space"), 507, "disk_full")],
)
def test_a_store_that_cannot_write_answers_with_its_kind_of_trouble(
    built: Built, tmp_path: Path, error: StoreError, status: int, code: str
) -> None:
    class Unwritable:
        def add_turn(self, *_: object) -> object:
            raise error

        def __getattr__(self, name: str) -> object:
            return getattr(built.store, name)

    broken = build_service(Unwritable(), tmp_path)  # type: ignore[arg-type]
    with served(broken.service) as caller:
        answer = caller.post("/capture", user_content="a", assistant_content="b", session_key="k")
        assert (answer.status, answer.json["code"]) == (status, code)
        document = caller.get("/v1/status").json
        assert (document["state"], document["reasons"][0]["code"]) == ("broken", code)


def test_the_unforeseen_is_a_plain_500_and_logged_once(
    built: Built, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd:
        def scopes(self) -> object:
            raise RuntimeError("secret detail sk-123")

        def __getattr__(self, name: str) -> object:
            return getattr(built.store, name)

    odd = build_service(Odd(), tmp_path)  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR), served(odd.service) as caller:
        answer = caller.get("/v1/inspect")
    assert (answer.status, answer.json["error"], answer.json["code"]) == (500, "internal error", "internal")
    assert "sk-123" not in answer.text
    assert [record.name for record in caplog.records] == ["memory_tencentdb_worker.api.gate"]


class Holding:
    """A store whose searches wait until they are let go."""

    def __init__(self, store: SqliteStore) -> None:
        self._store, self.release = store, threading.Event()

    def search_atoms(self, *_: object) -> list[object]:
        assert self.release.wait(20)
        return []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def test_health_answers_while_every_request_thread_waits_and_the_rest_is_told_to_come_again(
    store: SqliteStore, tmp_path: Path
) -> None:
    holding = Holding(store)
    built = build_service(holding, tmp_path)  # type: ignore[arg-type]
    surplus = 8
    amount = AT_WORK + IN_QUEUE + surplus
    with served(built.service) as caller, ThreadPoolExecutor(amount) as pool:
        asking = [pool.submit(caller.post, "/search/memories", query="coffee") for _ in range(amount)]
        refused = [future.result(10) for _, future in zip(range(surplus), as_completed(asking), strict=False)]
        assert {(one.status, one.json["code"], one.headers["retry-after"]) for one in refused} == {(429, "busy", "1")}
        started = time.monotonic()
        assert caller.get("/health").status == 200
        assert time.monotonic() - started < 0.2
        holding.release.set()
        assert sorted(future.result(20).status for future in asking) == [200] * (amount - surplus) + [429] * surplus


def test_openapi_names_every_route_and_there_are_no_pages(caller: Caller) -> None:
    paths = caller.get("/openapi.json").json["paths"]
    for path in ("/health", "/recall", "/capture", "/search/memories", "/search/conversations", "/session/end"):
        assert path in paths
    for path in ("hello", "status", "flush", "why/{id}", "inspect", "scene/{name}", "rebuild", "memory-write", "stop"):
        assert f"/v1/{path}" in paths
    assert caller.get("/docs").status == 404
