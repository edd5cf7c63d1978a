"""What stands in the session's visible history is not recalled into it; what may have left it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memory_tencentdb import protocol
from memory_tencentdb.provider import TencentDBMemoryProvider

Make = Callable[..., TencentDBMemoryProvider]
HISTORY = [{"role": "user", "content": "My dog is called Bramble."}, {"role": "assistant", "content": "Noted."}]


def asked_since(stub: Any) -> list[int | None]:
    return [body.get("visible_since") for body in stub.bodies(protocol.RECALL) if body["query"]]


def test_the_worker_is_told_since_when_the_history_is_whole(stub: Any, make_provider: Make) -> None:
    provider = make_provider()
    provider.prefetch("first question")
    provider.sync_turn("My dog is called Bramble.", "Noted.", messages=HISTORY)
    provider.prefetch("second question")
    provider.on_session_switch("s1", rewound=True)
    provider.prefetch("third question")
    provider.sync_turn("My cat is called Nettle.", "Noted.", messages=HISTORY)
    provider.on_pre_compress(HISTORY)
    provider.prefetch("fourth question")
    first, second, third, compressing, fourth = asked_since(stub)
    assert (first, third, compressing, fourth) == (None, None, None, None)
    captured = stub.bodies(protocol.CAPTURE)
    assert second == captured[0]["at"]


@pytest.mark.usefixtures("real_worker")
def test_a_fact_of_the_visible_history_is_not_repeated_and_comes_back_after_compression(make_provider: Make) -> None:
    provider = make_provider("s1")
    assert provider._link is not None
    assert provider._link.wait_ready(20)
    provider.sync_turn("My dog is called Bramble.", "Noted.", messages=HISTORY)
    assert provider.prefetch("what is my dog called?") == ""
    assert "Bramble" in provider.on_pre_compress(HISTORY)
    assert "Bramble" in provider.prefetch("what is my dog called?")
