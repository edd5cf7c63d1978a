"""By vector too a message is known by its neighbours, its atoms, and by who said it when."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contracts.turns import NOW, add, remember
from memory_tencentdb_worker.models import EmbeddingSpace, Filter, MessageHit, Preference, Role
from memory_tencentdb_worker.store.base import Store

SPACE = EmbeddingSpace("openai", "small", 3)
ASKED = [1.0, 0.0, 0.0]


def towards(likeness: float) -> list[float]:
    return [likeness, math.sqrt(1 - likeness**2), 0.0]


def embed(store: Store, likeness: dict[str, float]) -> None:
    store.use_space(SPACE)
    rows = [(text, towards(likeness.get(text.text, 0.0))) for text in store.texts_to_embed(1_000)]
    store.put_vectors(rows, "", NOW)


def nearest(store: Store, filter: Filter | None = None, query: str = "") -> list[MessageHit]:
    return store.nearest_messages(ASKED, filter or Filter(""), 10, query=query)


def texts(hits: Sequence[MessageHit]) -> list[str]:
    return [hit.message.text for hit in hits]


def test_a_near_neighbour_lifts_a_message_of_the_same_session_only(store: Store) -> None:
    add(store, "what do you drink these days", "gyokuro from the shop", session="tea")
    add(store, "a reply in another talk", "", session="other")
    embed(store, {"what do you drink these days": 0.9, "gyokuro from the shop": 0.5, "a reply in another talk": 0.55})
    hits = nearest(store)
    assert texts(hits) == ["what do you drink these days", "gyokuro from the shop", "a reply in another talk"]
    assert hits[1].score < hits[2].score
    assert [hit.lifted for hit in hits] == sorted((hit.lifted or 0.0 for hit in hits), reverse=True)


def test_messages_that_a_filter_cuts_off_lift_nobody(store: Store) -> None:
    later = NOW + 1_000
    add(store, "gyokuro from the shop", "", session="tea", at=NOW)
    add(store, "what do you drink these days", "", session="tea", at=later)
    add(store, "a reply in another talk", "", session="other", at=NOW)
    embed(store, {"what do you drink these days": 0.9, "gyokuro from the shop": 0.5, "a reply in another talk": 0.55})
    hits = nearest(store, Filter("", as_of=NOW))
    assert texts(hits) == ["a reply in another talk", "gyokuro from the shop"]


def test_an_atom_lifts_the_message_it_rests_on(store: Store) -> None:
    remember(store, "the user keeps bees", said="they swarmed again today", session="one")
    add(store, "something else that is near", "", session="two")
    embed(store, {"the user keeps bees": 0.9, "they swarmed again today": 0.4, "something else that is near": 0.5})
    assert texts(nearest(store))[:2] == ["they swarmed again today", "something else that is near"]


def test_who_spoke_and_when_counts_as_with_words(store: Store) -> None:
    add(store, "Ann: near enough to be found", "", session="one", at=NOW)
    add(store, "Bob: a little nearer than that", "", session="two", at=NOW + 5_000)
    embed(store, {"near enough to be found": 0.5, "a little nearer than that": 0.55})
    first = lambda filter, query: texts(nearest(store, filter, query))[0][:3]  # noqa: E731
    assert first(Filter(""), "") == "Bob"
    assert first(Filter(""), "what does Ann think") == "Ann"
    assert first(Filter("", prefer=Preference(spans=((NOW, NOW + 1),))), "") == "Ann"
    assert first(Filter("", prefer=Preference(role=Role.USER)), "") == "Bob"
