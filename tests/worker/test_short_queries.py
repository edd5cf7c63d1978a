"""The shipped set of short queries: the right message is among the first three, by words alone."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from bench.retrieval_systems import StoreWithFacts
from bench.short import LANGUAGES, read_case


def test_short_queries_in_three_languages_find_their_message_among_the_first_three(tmp_path: Path) -> None:
    case = read_case()
    found: dict[str, list[bool]] = defaultdict(list)
    with StoreWithFacts(tmp_path) as store:
        store.add(case)
        for question in case.questions:
            found[question.category].append(bool(question.evidence & set(store.search(case, question.text, 3))))
    assert set(found) == set(LANGUAGES)
    assert all(len(answers) > 100 for answers in found.values())
    shares = {language: sum(answers) / len(answers) for language, answers in found.items()}
    assert min(shares.values()) >= 0.98, shares
