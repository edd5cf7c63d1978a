"""L0: what is stored of what the host hands over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from layer_parts import START, capture
from memory_tencentdb.wire import CaptureRequest
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.layers.l0_turns import capture_turn
from memory_tencentdb_worker.models import Origin, Role
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.sqlite import open_store

CONFIG = Config()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data", START)
    yield opened
    opened.close()


def texts(store: Store, session_key: str = "s1", scope: str = "") -> list[str]:
    return [message.text for message in store.session_tail(scope, session_key, 1000)]


def msg(role: str, content: object, **more: object) -> dict[str, object]:
    return {"role": role, "content": content, **more}


def test_user_stands_before_assistant_and_each_has_its_origin(store: Store) -> None:
    answer = capture(store, CONFIG, "I live in Porto.", "Nice.")
    assert (answer.l0_recorded, answer.scheduler_notified, answer.duplicate) == (2, True, False)
    tail = store.session_tail("", "s1", 10)
    assert [(m.role, m.origin, m.text) for m in tail] == [
        (Role.USER, Origin.USER, "I live in Porto."),
        (Role.ASSISTANT, Origin.ASSISTANT, "Nice."),
    ]
    assert [m.id for m in tail] == answer.message_ids


def test_replayed_turn_is_stored_once(store: Store) -> None:
    first = capture(store, CONFIG, "I live in Porto.", "Nice.", turn_id="t1")
    again = capture(store, CONFIG, "I live in Porto.", "Nice.", turn_id="t1")
    assert (again.l0_recorded, again.duplicate, again.message_ids) == (0, True, first.message_ids)
    assert len(texts(store)) == 2


@pytest.mark.parametrize(("user", "assistant", "stored"), [("q", "", ["q"]), ("", "a", ["a"]), (None, "", [])])
def test_an_empty_side_is_tolerated(store: Store, user: object, assistant: str, stored: list[str]) -> None:
    answer = capture(store, CONFIG, user, assistant)
    assert answer.l0_recorded == len(stored)
    assert texts(store) == stored


def test_growing_conversation_is_stored_once_however_often_it_comes(store: Store) -> None:
    talk = [msg("user", "fix the bug")]
    for step in range(1, 5):
        talk = [*talk, msg("assistant", f"step {step}"), msg("tool", "40 lines of output")]
        capture(store, CONFIG, "fix the bug", f"step {step}", messages=talk)
    assert texts(store) == ["fix the bug", "step 1", "step 2", "step 3", "step 4"]


def test_same_words_in_a_later_turn_are_stored_again(store: Store) -> None:
    capture(store, CONFIG, "ok", "Done.")
    talk = [msg("user", "ok"), msg("assistant", "Done.")]
    capture(store, CONFIG, "ok", "Done.", messages=[*talk, *talk])
    assert texts(store) == ["ok", "Done."] * 2
    capture(store, CONFIG, "ok", "Done.", messages=[*talk, *talk])
    assert texts(store) == ["ok", "Done."] * 3, "a conversation without the turn itself must not swallow the turn"


def test_turn_that_the_conversation_does_not_hold_yet_is_appended(store: Store) -> None:
    talk = [msg("user", "hello"), msg("assistant", "hi")]
    capture(store, CONFIG, "I have a cat", "Nice", messages=talk)
    assert texts(store) == ["hello", "hi", "I have a cat", "Nice"]
    capture(
        store,
        CONFIG,
        "Her name is Zoe",
        "Lovely",
        messages=[*talk, msg("user", "I have a cat"), msg("assistant", "Nice"), msg("user", "Her name is Zoe")],
    )
    assert texts(store)[4:] == ["Her name is Zoe", "Lovely"]


@pytest.mark.parametrize("order", [("user", "assistant"), ("assistant", "user"), ("user", "user")])
def test_two_messages_that_are_the_turn_are_stored_once_in_their_order(store: Store, order: tuple[str, str]) -> None:
    talk = [msg(order[0], "first words"), msg(order[1], "second words")]
    capture(store, CONFIG, "second words", "first words", messages=talk)
    assert texts(store) == ["first words", "second words"]


@pytest.mark.parametrize("answer", ["Fine.", "Great."])
def test_messages_that_hold_only_this_turn_are_stored_though_their_words_were_said_before(
    store: Store, answer: str
) -> None:
    first = [msg("user", "yes"), msg("assistant", "Fine.")]
    capture(store, CONFIG, "yes", "Fine.", turn_id="1", messages=first)
    again = [msg("user", "yes"), msg("assistant", answer)]
    capture(store, CONFIG, "yes", answer, turn_id="2", messages=again)
    capture(store, CONFIG, "yes", answer, turn_id="2", messages=again)
    assert texts(store) == ["yes", "Fine.", "yes", answer]


def test_words_said_again_after_a_summary_took_the_place_of_the_history_are_stored(store: Store) -> None:
    talk = [msg("user", "yes"), msg("assistant", "ok"), msg("user", "what now"), msg("assistant", "dunno")]
    capture(store, CONFIG, "yes", "ok", turn_id="1", messages=talk[:2])
    capture(store, CONFIG, "what now", "dunno", turn_id="2", messages=talk)
    shrunk = [msg("user", "[summary]"), msg("user", "yes"), msg("assistant", "sure")]
    capture(store, CONFIG, "yes", "sure", turn_id="3", messages=shrunk)
    assert texts(store) == ["yes", "ok", "what now", "dunno", "[summary]", "yes", "sure"]


def test_conversation_longer_than_what_is_aligned_stores_what_is_new_and_nothing_twice(store: Store) -> None:
    talk = [msg(role, f"{role} {number}") for number in range(400) for role in ("user", "assistant")]
    capture(store, CONFIG, "user 398", "assistant 398", messages=talk[:-2])
    capture(store, CONFIG, "user 399", "assistant 399", messages=[msg("user", "summary"), *talk])
    assert texts(store) == [*(str(one["content"]) for one in talk[:-2]), "summary", "user 399", "assistant 399"]


def test_only_user_and_assistant_messages_are_read_and_never_the_api_content(store: Store) -> None:
    talk = [
        msg("system", "You are a pirate"),
        msg("user", [{"type": "text", "text": "look"}, {"type": "image_url"}], api_content="recalled secret"),
        msg("assistant", "I see", tool_calls=[{"x": 1}]),
        msg("tool", "tool output"),
        "garbage",
    ]
    capture(store, CONFIG, "", "", messages=talk)
    assert texts(store) == ["look\n[image]", "I see"]


def test_times_of_messages_are_kept_in_seconds_milliseconds_and_iso(store: Store) -> None:
    talk = [
        msg("user", "one", timestamp=1_700_000_000.5),
        msg("assistant", "two", timestamp=1_700_000_001_000),
        msg("user", "three", at="2024-05-01T10:00:00+02:00"),
        msg("assistant", "four", timestamp="soon"),
    ]
    capture(store, CONFIG, "", "", messages=talk, at="2023-01-01T00:00:00Z")
    assert [m.sent_at for m in store.session_tail("", "s1", 9)] == [
        1_700_000_000_500,
        1_700_000_001_000,
        1_714_550_400_000,
        1_672_531_200_000,
    ]


def test_excluded_sessions_store_nothing(store: Store) -> None:
    config = Config.model_validate({"memory": {"capture": {"excludeAgents": ["bench-*"]}}})
    assert capture(store, config, "x", "y", session_key="bench-1").scheduler_notified is False
    assert capture(store, config, "x", "y", session_key="my-bench-1").l0_recorded == 2
    off = Config.model_validate({"memory": {"capture": {"enabled": False}}})
    assert capture(store, off, "x", "y").l0_recorded == 0


@pytest.mark.parametrize(
    "field",
    [
        {"session_key": ""},
        {"session_key": "a" * 501},
        {"session_key": "a\nb"},
        {"turn_id": "x" * 201},
        {"user_id": "\x00"},
        {"user_id": "u" * 501},
        {"at": "yesterday"},
        {"at": float("nan")},
    ],
)
def test_ids_and_times_that_cannot_be_kept_are_refused(store: Store, field: dict[str, object]) -> None:
    request = CaptureRequest("x", "y", **{"session_key": "s", **field})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        capture_turn(request, store, CONFIG, UTC, START)
    assert store.scopes() in ([], [""])


def test_users_are_kept_apart_exactly(store: Store) -> None:
    for user_id in ("", "Ada", "ada", " ada"):
        capture(store, CONFIG, f"I am {user_id!r}", "", user_id=user_id)
    assert texts(store, scope="ada") == ["I am 'ada'"]
    assert texts(store, scope=" ada") == ["I am ' ada'"]
