"""Vectors in every store: one space at a time, nobody crowded out, nothing unusable let in."""

from __future__ import annotations

import math

import pytest

from contracts.turns import LEASE_MS, NOW, add, atom, idle_plan, remember, source
from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import (
    AtomChanges,
    AtomType,
    EmbeddingSpace,
    Filter,
    JobKind,
    Layer,
    TextToEmbed,
    VectorCounts,
)
from memory_tencentdb_worker.store.base import Store

SPACE = EmbeddingSpace("openai", "small", 3)
WIDER = EmbeddingSpace("openai", "large", 4)
EAST, NORTH, UP = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]


def embed_all(store: Store, vector_of: dict[str, list[float]], other: list[float] = UP) -> None:
    rows = [(text, vector_of.get(text.text, other)) for text in store.texts_to_embed(10_000)]
    store.put_vectors(rows, "", NOW)


def test_without_a_space_there_are_no_vectors(store: Store) -> None:
    add(store, "text", "")
    assert store.texts_to_embed(5) == []
    assert store.vector_counts() == VectorCounts(0, 0, 0)
    with pytest.raises(StoreError):
        store.nearest_messages(EAST, Filter(""), 5)
    with pytest.raises(StoreError):
        store.nearest_atoms(EAST, Filter(""), 5)


def test_rows_from_before_and_after_the_space_are_embedded(store: Store) -> None:
    add(store, "before", "")
    store.use_space(SPACE)
    known = remember(store, "fact", said="after")
    assert [(text.layer, text.text) for text in store.texts_to_embed(9)] == [
        (Layer.L1, "fact"),
        (Layer.L0, "after"),
        (Layer.L0, "before"),
    ]
    assert store.vector_counts() == VectorCounts(3, 0, 0)
    assert not store.idle()
    embed_all(store, {"fact": EAST})
    assert store.texts_to_embed(9) == []
    assert store.vector_counts() == VectorCounts(3, 3, 0)
    assert store.counts().vectors == 3
    assert store.counts("").vectors == 3
    (hit,) = store.nearest_atoms(EAST, Filter(""), 1)
    assert hit.atom == known
    assert hit.score == pytest.approx(1.0)


def test_names_of_speakers_are_known_and_are_no_part_of_what_is_embedded(store: Store) -> None:
    store.use_space(SPACE)
    add(store, "Ann: I went hiking", "[Bob Lee]: where?", session="walks")
    add(store, "Eve: no", "", scope="other")
    assert store.speakers(Filter("")) == {"ann", "bob lee"}
    assert store.speakers(Filter("", session_key="elsewhere")) == frozenset()
    assert [text.text for text in store.texts_to_embed(9)] == ["no", "where?", "I went hiking"]


def test_new_rows_make_the_embedding_job_due(store: Store) -> None:
    store.use_space(SPACE)
    add(store, "text", "")
    held = store.lease_job([JobKind.EMBED], NOW, LEASE_MS, "w")
    assert held is not None
    assert (held.scope, held.session_key) == ("", "")
    add(store, "arrives meanwhile", "")
    store.finish_job(held, (), NOW)
    assert store.lease_job([JobKind.EMBED], NOW, LEASE_MS, "w") is not None


def test_waiting_embedder_is_not_asked_by_every_turn(store: Store) -> None:
    store.use_space(SPACE)
    add(store, "text", "")
    held = store.lease_job([JobKind.EMBED], NOW, LEASE_MS, "w")
    assert held is not None
    store.retry_job(held, NOW + 60_000, "away", NOW)
    add(store, "more", "")
    assert store.next_due_at([JobKind.EMBED]) == NOW + 60_000


def test_nearest_comes_first_and_the_same_direction_scores_one(store: Store) -> None:
    store.use_space(SPACE)
    for text in ("east", "north", "north-east"):
        add(store, text, "")
    embed_all(store, {"east": EAST, "north": NORTH, "north-east": [3.0, 3.0, 0.0]})
    hits = store.nearest_messages([5.0, 0.0, 0.0], Filter(""), 9)
    assert [hit.message.text for hit in hits] == ["east", "north-east", "north"]
    assert hits[0].score == pytest.approx(1.0)
    assert hits[1].score > 0.5 > hits[2].score


def test_scores_count_from_what_is_usual_for_the_model(store: Store) -> None:
    """A model that puts all texts into a narrow cone gives unrelated ones a cosine of 0.8."""
    store.use_space(EmbeddingSpace("openai", "cone", 3, unrelated=0.8))
    near, far = [0.95, 0.1, 0.0], [0.8, 0.6, 0.0]
    for number in range(40):
        add(store, f"far {number}", "")
    add(store, "near", "")
    embed_all(store, {"near": near}, far)
    scores = {hit.message.text: hit.score for hit in store.nearest_messages(EAST, Filter(""), 50)}
    assert scores["near"] > 0.9
    assert max(score for text, score in scores.items() if text != "near") == pytest.approx(0.0, abs=0.05)


def test_nobody_is_crowded_out_by_another_scope_or_session(store: Store) -> None:
    store.use_space(SPACE)
    for number in range(300):
        add(store, f"alice {number}", "", scope="alice")
    for number in range(50):
        add(store, f"bob {number}", "", scope="bob", session="busy")
    add(store, "the one", "", scope="bob", session="quiet")
    remember(store, "drank tea", said="x", scope="bob", type=AtomType.EPISODIC, scene="Tea")
    for number in range(20):
        remember(store, f"likes {number}", said="x", scope="bob")
    embed_all(store, {"the one": NORTH, "drank tea": NORTH}, EAST)
    assert {hit.message.scope for hit in store.nearest_messages(EAST, Filter("bob"), 5)} == {"bob"}
    quiet = store.nearest_messages(EAST, Filter("bob", session_key="quiet"), 5)
    assert [hit.message.text for hit in quiet] == ["the one"]
    for filter in (Filter("bob", type=AtomType.EPISODIC), Filter("bob", scene="tea")):
        assert [hit.atom.content for hit in store.nearest_atoms(EAST, filter, 5)] == ["drank tea"]
    assert store.nearest_messages(EAST, Filter("nobody"), 5) == []


@pytest.mark.parametrize("vector", [[1.0, 0.0], [1.0] * 4, [], [0.0] * 3, [math.nan, 1.0, 0.0], [math.inf, 0.0, 0.0]])
def test_unusable_vectors_are_refused(store: Store, vector: list[float]) -> None:
    store.use_space(SPACE)
    add(store, "good", "")
    add(store, "bad", "")
    bad, good = store.texts_to_embed(2)
    with pytest.raises(StoreError):
        store.put_vectors([(good, EAST), (bad, vector)], "", NOW)
    assert store.vector_counts().embedded == 0
    with pytest.raises(StoreError):
        store.nearest_messages(vector, Filter(""), 5)


@pytest.mark.parametrize("limit", [-1, 0, 1, 5_000])
def test_neighbour_limit_is_kept_within_bounds(store: Store, limit: int) -> None:
    store.use_space(SPACE)
    for number in range(3):
        add(store, f"text {number}", "")
    embed_all(store, {}, EAST)
    assert len(store.nearest_messages(EAST, Filter(""), limit)) == max(0, min(3, limit))


def test_refused_text_is_not_asked_again_until_someone_wishes(store: Store) -> None:
    store.use_space(SPACE)
    add(store, "refused", "")
    (text,) = store.texts_to_embed(5)
    store.put_vectors([(text, None)], "content filter", NOW)
    assert store.texts_to_embed(5) == []
    assert store.vector_counts() == VectorCounts(1, 0, 1)
    store.use_space(SPACE)
    assert store.texts_to_embed(5) == []
    store.make_due(NOW, expedite=True, parked=True)
    assert store.texts_to_embed(5) == [text]
    store.put_vectors([(text, EAST)], "", NOW)
    assert store.vector_counts() == VectorCounts(1, 1, 0)


def test_vector_written_twice_is_replaced(store: Store) -> None:
    store.use_space(SPACE)
    add(store, "text", "")
    (text,) = store.texts_to_embed(5)
    store.put_vectors([(text, EAST)], "", NOW)
    store.put_vectors([(text, NORTH)], "", NOW)
    (hit,) = store.nearest_messages(NORTH, Filter(""), 5)
    assert hit.score == pytest.approx(1.0)
    assert store.vector_counts() == VectorCounts(1, 1, 0)


def test_superseded_atoms_lose_their_vectors(store: Store) -> None:
    store.use_space(SPACE)
    old = remember(store, "old", said="x")
    queued = next(text for text in store.texts_to_embed(9) if text.layer is Layer.L1)
    embed_all(store, {"old": EAST})
    message = store.message("", old.sources[0].message_id)
    assert message is not None
    new = atom("new", message)
    assert new.sources == (source(message),)
    store.add_atoms("", AtomChanges(add=(new,), supersede=((old.id, new.id),)), idle_plan, NOW)
    assert store.nearest_atoms(EAST, Filter(""), 5) == []
    store.put_vectors([(queued, EAST)], "", NOW)
    assert store.nearest_atoms(EAST, Filter(""), 5) == []
    assert [text.text for text in store.texts_to_embed(5)] == ["new"]
    embed_all(store, {"new": NORTH})
    assert [hit.atom.content for hit in store.nearest_atoms(EAST, Filter(""), 5)] == ["new"]
    assert store.vector_counts() == VectorCounts(2, 2, 0)


def test_vector_of_an_unknown_row_is_dropped(store: Store) -> None:
    store.use_space(SPACE)
    store.put_vectors([(TextToEmbed(Layer.L0, 999, "gone"), EAST)], "", NOW)
    assert store.vector_counts() == VectorCounts(0, 0, 0)


def test_new_space_starts_empty_and_the_old_one_waits_until_it_is_complete(store: Store) -> None:
    store.use_space(SPACE)
    add(store, "one", "")
    add(store, "two", "")
    embed_all(store, {}, EAST)
    store.use_space(WIDER)
    assert store.vector_counts() == VectorCounts(2, 0, 0)
    assert store.nearest_messages([1.0] * 4, Filter(""), 5) == []
    with pytest.raises(StoreError):
        store.nearest_messages(EAST, Filter(""), 5)
    first, second = store.texts_to_embed(5)
    store.put_vectors([(first, [1.0] * 4)], "", NOW)
    store.use_space(SPACE)
    assert store.vector_counts() == VectorCounts(2, 2, 0)
    assert len(store.nearest_messages(EAST, Filter(""), 5)) == 2

    store.use_space(WIDER)
    assert store.vector_counts() == VectorCounts(2, 1, 0)
    store.put_vectors([(second, [1.0] * 4)], "", NOW)
    store.use_space(SPACE)
    assert store.vector_counts() == VectorCounts(2, 0, 0)


def test_the_former_space_answers_until_the_new_one_is_whole(store: Store) -> None:
    store.use_space(SPACE)
    add(store, "one", "")
    add(store, "two", "")
    embed_all(store, {"one": EAST}, NORTH)
    assert store.former_space is None
    store.use_space(WIDER)
    assert store.former_space == SPACE
    first, second = store.texts_to_embed(5)
    store.put_vectors([(first, [1.0] * 4)], "", NOW)
    assert [hit.message.text for hit in store.nearest_messages(EAST, Filter(""), 1, SPACE)] == ["one"]
    store.put_vectors([(second, [1.0] * 4)], "", NOW)
    assert store.former_space is None
    with pytest.raises(StoreError):
        store.nearest_messages(EAST, Filter(""), 1, SPACE)
    assert len(store.nearest_messages([1.0] * 4, Filter(""), 5)) == 2


def test_a_new_model_that_refuses_everything_replaces_nothing(store: Store) -> None:
    store.use_space(SPACE)
    add(store, "one", "")
    add(store, "two", "")
    embed_all(store, {}, EAST)
    store.use_space(WIDER)
    store.put_vectors([(text, None) for text in store.texts_to_embed(5)], "refused", NOW)
    assert store.texts_to_embed(5) == []
    assert store.former_space == SPACE
    assert len(store.nearest_messages(EAST, Filter(""), 5, SPACE)) == 2


def test_rows_that_were_superseded_by_the_hundred_crowd_nobody_out(store: Store) -> None:
    store.use_space(SPACE)
    (message_id,) = add(store, "said once", "")
    message = store.message("", message_id)
    assert message is not None
    old = [atom(f"old {number}", message) for number in range(900)]
    kept = atom("kept", message)
    store.add_atoms("", AtomChanges(add=(*old, kept)), idle_plan, NOW)
    embed_all(store, {"kept": [1.0, 1.0, 0.0]}, EAST)
    assert store.nearest_atoms(EAST, Filter(""), 1)[0].atom.content.startswith("old")
    new = atom("new", message)
    store.add_atoms("", AtomChanges(add=(new,), supersede=tuple((one.id, new.id) for one in old)), idle_plan, NOW)
    assert [hit.atom.content for hit in store.nearest_atoms(EAST, Filter(""), 1)] == ["kept"]


def test_vectors_made_for_a_space_that_was_left_are_not_mixed_in(store: Store) -> None:
    add(store, "text", "")
    store.use_space(SPACE)
    rows = [(text, EAST) for text in store.texts_to_embed(5)]
    store.use_space(EmbeddingSpace("openai", "other model, same width", 3))
    store.put_vectors(rows, "", NOW)
    assert store.vector_counts() == VectorCounts(1, 0, 0)
    assert [text.text for text in store.texts_to_embed(5)] == ["text"]


def test_entering_a_space_makes_its_work_due_now_and_not_long_ago(store: Store) -> None:
    add(store, "text", "")
    store.use_space(SPACE)
    assert store.job_counts(NOW).oldest_due_at == NOW


def test_leaving_the_space_stops_the_work(store: Store) -> None:
    store.use_space(SPACE)
    add(store, "text", "")
    store.use_space(None)
    assert store.texts_to_embed(5) == []
    assert store.make_due(NOW, expedite=True) == 1
    add(store, "written meanwhile", "")
    store.use_space(SPACE)
    assert [text.text for text in store.texts_to_embed(5)] == ["written meanwhile", "text"]
