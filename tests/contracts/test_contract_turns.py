"""L0 of every store: a turn is written once and whole, whatever happens around it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contracts.conftest import Open
from contracts.turns import NOW, add, batch, idle_plan, lease, turn
from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.models import AtomChanges, Due, Filter, JobKind, NewMessage, Origin, Role, SessionState
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.ids import message_id, text_hash


def test_turn_is_stored_user_first_with_its_hashes(store: Store) -> None:
    receipt = store.add_turn(turn("I live in Porto.", "A fine city.", turn_id="t1"), idle_plan, NOW + 5)

    assert receipt.recorded == 2
    assert not receipt.duplicate
    assert receipt.message_ids == (message_id("", "s1", "t1", 0), message_id("", "s1", "t1", 1))
    user, assistant = store.session_tail("", "s1", 10)
    assert (user.role, user.text, user.hash) == (Role.USER, "I live in Porto.", text_hash("I live in Porto."))
    assert (assistant.role, assistant.origin) == (Role.ASSISTANT, Origin.ASSISTANT)
    assert (user.sent_at, user.recorded_at, user.turn_id, user.scope) == (NOW, NOW + 5, "t1", "")
    assert user.seq < assistant.seq


def test_replayed_turn_is_stored_once(store: Store) -> None:
    first = store.add_turn(turn(turn_id="t1"), idle_plan, NOW)
    again = store.add_turn(turn(turn_id="t1"), idle_plan, NOW + 1)

    assert again.duplicate
    assert again.recorded == 0
    assert again.message_ids == first.message_ids
    assert store.counts().messages == 2


def test_growing_turn_adds_only_what_is_new(store: Store) -> None:
    store.add_turn(turn("question", "", turn_id="t1"), idle_plan, NOW)
    receipt = store.add_turn(turn("question", "answer", turn_id="t1"), idle_plan, NOW + 1)

    assert receipt.recorded == 1
    assert not receipt.duplicate
    assert [message.text for message in store.session_tail("", "s1", 10)] == ["question", "answer"]
    assert store.counts().turns == 1


def test_equal_messages_inside_one_turn_are_kept_and_counted(store: Store) -> None:
    ok = NewMessage(Role.USER, "ok", NOW, Origin.USER)
    twice = turn("", "", turn_id="t1")
    two = type(twice)("", "t1", "s1", "s1", (ok, ok), NOW, "test")
    three = type(twice)("", "t1", "s1", "s1", (ok, ok, ok), NOW, "test")

    assert store.add_turn(two, idle_plan, NOW).recorded == 2
    assert store.add_turn(two, idle_plan, NOW).recorded == 0
    assert store.add_turn(three, idle_plan, NOW).recorded == 1
    assert store.counts().messages == 3


def test_equal_text_in_another_turn_is_kept(store: Store) -> None:
    add(store, "ok", "")
    add(store, "ok", "")
    assert store.counts().messages == 2


def test_turn_id_belongs_to_its_scope(store: Store) -> None:
    add(store, "of ann", "", turn_id="t1", scope="ann")
    receipt = store.add_turn(turn("of bob", "", turn_id="t1", scope="bob"), idle_plan, NOW)

    assert receipt.recorded == 1
    assert [message.text for message in store.session_tail("ann", "s1", 10)] == ["of ann"]
    assert [message.text for message in store.session_tail("bob", "s1", 10)] == ["of bob"]


def test_turn_id_belongs_to_its_session(store: Store) -> None:
    add(store, "I like rum.", "", turn_id="1", session="a")
    receipts = [
        store.add_turn(turn(text, "", turn_id="1", session=session), idle_plan, NOW)
        for session, text in (("b", "I like rum."), ("c", "I like gin."), ("c", "I like gin."))
    ]

    assert [(receipt.recorded, receipt.duplicate) for receipt in receipts] == [(1, False), (1, False), (0, True)]
    assert [message.text for message in store.session_tail("", "c", 10)] == ["I like gin."]
    assert [message.session_key for message in store.turn_messages("", "1")] == ["a", "b", "c"]


@pytest.mark.parametrize("scope", ["../x", "a:b", "u" * 300, "Ünï 🦊", "ANN", "ann"])
def test_odd_scopes_stay_apart(store: Store, scope: str) -> None:
    add(store, "other", "", scope=scope + " ")
    add(store, "mine", "", scope=scope)
    assert [message.text for message in store.session_tail(scope, "s1", 10)] == ["mine"]
    assert store.scopes() == sorted([scope, scope + " "])


def test_text_survives_byte_for_byte(store: Store) -> None:
    text = "👨‍👩‍👧‍👦 می‌خواهم \t`code`\n\n'; drop table messages; -- 𠮷 é"
    ids = add(store, text, "")
    found = store.message("", ids[0])
    assert found is not None
    assert found.text == text


def test_lone_surrogate_is_refused_and_nothing_is_written(store: Store) -> None:
    with pytest.raises(InvalidInput):
        add(store, "fine", "broken \ud800")
    assert store.counts().messages == 0
    assert add(store, "fine", "")


def test_failing_plan_undoes_the_whole_turn(store: Store) -> None:
    def broken(state: SessionState) -> list[Due]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.add_turn(turn(turn_id="t1"), broken, NOW)
    assert store.counts().turns == 0
    assert store.add_turn(turn(turn_id="t1"), idle_plan, NOW).recorded == 2


def test_plan_sees_the_state_after_the_turn(store: Store) -> None:
    seen: list[SessionState] = []

    def plan(state: SessionState) -> list[Due]:
        seen.append(state)
        return [Due(JobKind.L1, NOW + 600)]

    store.add_turn(turn(), plan, NOW)
    store.add_turn(turn(), plan, NOW + 7)

    assert [state.pending_turns for state in seen] == [1, 2]
    assert seen[1].last_active_at == NOW + 7
    assert seen[1].l1_due_at == NOW + 600
    assert store.next_due_at([JobKind.L1]) == NOW + 600


def test_past_and_future_instants_do_not_change_the_order(store: Store) -> None:
    add(store, "from the future", "", at=NOW * 2)
    add(store, "from 1970", "", at=0)
    assert [message.text for message in store.session_tail("", "s1", 10)] == ["from the future", "from 1970"]


def test_session_tail_is_the_newest_oldest_first(store: Store) -> None:
    for number in range(5):
        add(store, f"turn {number}", "")
    assert [message.text for message in store.session_tail("", "s1", 2)] == ["turn 3", "turn 4"]
    assert store.session_tail("", "other", 2) == []


def test_unextracted_is_what_l1_has_not_read_newest_first(store: Store) -> None:
    add(store, "one", "", session="a")
    add(store, "two", "", session="b")
    add(store, "three", "", session="a")
    add(store, "not mine", "", session="a", scope="bob")
    assert [message.text for message in store.unextracted("", 10)] == ["three", "two", "one"]
    assert [message.text for message in store.unextracted("", 1)] == ["three"]
    assert [message.text for message in store.unextracted("", 10, session_key="a")] == ["three", "one"]


def test_unextracted_of_many_sessions_is_the_newest_of_all(store: Store) -> None:
    said = []
    for number in range(40):
        name = "abcde"[(number * number) % 5] if number < 30 else "a"
        add(store, f"turn {number}", "", session=name)
        said.append((name, f"turn {number}"))
    store.make_due(NOW, scope="", session_key="b", expedite=False)
    held, read = lease(store, JobKind.L1), batch(store, "b", max_messages=3)
    store.apply_atoms(held, read, AtomChanges(), idle_plan, NOW)
    taken = {message.text for message in read.messages}
    assert len(taken) == 3
    unread = [text for _, text in reversed(said) if text not in taken]
    for limit in (0, 1, 7, 15, 100):
        assert [message.text for message in store.unextracted("", limit)] == unread[:limit]


def test_ten_threads_of_fifty_captures_store_five_hundred_turns(store: Store) -> None:
    def capture(worker: int) -> None:
        for number in range(50):
            add(store, f"turn {number} of {worker}", "yes", session=f"s{worker}", turn_id=f"{worker}-{number}")
            store.search_messages("turn", Filter(""), 3)

    with ThreadPoolExecutor(10) as threads:
        list(threads.map(capture, range(10)))
    assert store.counts().turns == 500
    assert store.counts().messages == 1000


def test_reopened_store_equals(open_backend: Open, tmp_path: Path) -> None:
    store = open_backend(tmp_path / "data")
    add(store, "kept", "", turn_id="t1")
    identity, tail = store.data_dir_id, store.session_tail("", "s1", 10)
    store.close()
    store.close()

    again = open_backend(tmp_path / "data")
    assert again.data_dir_id == identity
    assert again.session_tail("", "s1", 10) == tail
    assert again.add_turn(turn("kept", "", turn_id="t1"), idle_plan, NOW).duplicate


def test_batch_is_whole_turns_oldest_first_with_background(store: Store) -> None:
    for number in range(4):
        add(store, f"question {number}", f"answer {number}")
    first = batch(store, max_messages=5)
    assert [message.text for message in first.messages] == ["question 0", "answer 0", "question 1", "answer 1"]
    assert first.background == ()

    store.make_due(NOW, expedite=False)
    held = lease(store, JobKind.L1)
    store.apply_atoms(held, first, AtomChanges(scene_name="Quiz"), idle_plan, NOW)
    second = batch(store, max_messages=5)
    assert second.messages[0].text == "question 2"
    assert [message.text for message in second.background] == [message.text for message in first.messages]
    assert second.previous_scene == "Quiz"


def test_batch_holds_at_least_one_turn_however_large(store: Store) -> None:
    add(store, "x" * 5000, "y" * 5000)
    add(store, "small", "")
    assert len(batch(store, max_messages=1, max_chars=10).messages) == 2


def test_nothing_unread_is_no_batch(store: Store) -> None:
    assert store.read_l1_batch("", "nowhere", max_messages=5, max_chars=500, background=2) is None
