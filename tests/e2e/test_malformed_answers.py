"""Every way in which models spoil an answer, three times in a row, through a real worker (field traps B60 to B72):
nothing that nobody said is stored, and once the endpoint is good again nothing is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import fake_openai
from fake_openai_answers import SAID
from planted import kept_atoms
from processes import WorkerProcess

TASK = "l1-extraction"
SPOILT_BY_THE_ENDPOINT = (
    "content_filter",
    "empty_body",
    "empty_choices",
    "html",
    "malformed",
    "null_content",
    "prose",
    "reasoning_only",
    "refusal",
    "truncated",
)


@dataclass
class Home:
    """One worker for all kinds; what was said in one is still there in the next."""

    worker: WorkerProcess
    fake: fake_openai.FakeEndpoint
    said: list[str] = field(default_factory=list)

    @property
    def next_fact(self) -> str:
        return f"I own lighthouse number {1000 + len(self.said)}."

    def say(self, session: str, answer: str = "") -> str:
        """A session's first turn is read at once, so the answer waits there before it is said."""
        fact = self.next_fact
        self.said.append(fact)
        if answer:
            self.fake.script(TASK, [answer])
        self.worker.capture(fact, "A fine one.", session=session, turn_id=f"turn-{len(self.said)}")
        return fact

    def flush(self, wait_seconds: float = 60, **more: Any) -> dict[str, Any]:
        body = {"wait_seconds": wait_seconds, "ask_again": True, **more}
        return self.worker.post("/v1/flush", body, timeout_seconds=wait_seconds + 30)

    def assert_each_fact_is_stored_once_and_nothing_else(self) -> None:
        contents = [atom.content for atom in kept_atoms(Path(self.worker.endpoint["data_dir"]))]
        flat = [" ".join(text.replace('the "lighthouse"', "lighthouse").split()) for text in contents]
        assert sorted(flat) == sorted(SAID + fact for fact in self.said)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with fake_openai.running() as fake:
        config = {
            "llm": {"baseUrl": fake.url, "apiKey": "sk-test", "model": "fake"},
            "memory": {"extraction": {"enableDedup": False}},
        }
        worker = WorkerProcess(tmp_path_factory.mktemp("malformed") / "home", config)
        worker.start()
        yield Home(worker, fake)
        worker.stop()


@pytest.mark.parametrize("mode", SPOILT_BY_THE_ENDPOINT)
def test_an_answer_that_is_none_loses_no_fact_and_stores_no_other(home: Home, mode: str) -> None:
    home.fake.fail(mode, times=3, task=TASK)
    for number in range(2):  # the first and its repair; then the first of the second
        home.say(f"{mode}-{number}")
        home.flush(wait_seconds=1)
    home.fake.heal()
    assert home.flush(parked=True)["idle"]
    home.assert_each_fact_is_stored_once_and_nothing_else()


def scenes(*memories: dict[str, Any]) -> str:
    filled = [{"type": "persona", "priority": 70, "source_message_ids": ["l0_1"], **one} for one in memories]
    return json.dumps({"scenes": [{"scene_name": "talking", "memories": filled}]})


DRAFT = scenes({"content": "A DRAFT."})
RECOVERABLE = {
    "fence": "```json\n{answer}\n```",
    "chatter with brackets": "Sure! Here is what [I] found:\n\n```json\n{answer}\n```\nAnything else [1]?",
    "reasoning": "<think>\nFirst try:\n" + DRAFT + "\nNo.\n</think>\n{answer}",
    "reasoning without a beginning": DRAFT + "\n</think>\n{answer}",
    "empty draft before": '{"scenes": []}\n{answer}',
    "another wrapper": '{"result": {answer}}',
}
BENT = {
    "trailing commas": ("]}", ",]}"),
    "single quotes": ('"talking"', "'talking'"),
    "not a number": ('"priority": 70', '"priority": NaN'),
    "python's words": ('"priority": 70', '"priority": None'),
    "raw line feed": ("lighthouse ", "lighthouse\n"),
    "bare quotes": ("lighthouse number", 'the "lighthouse" number'),
    "ids in brackets": ('"l0_1"', '"[l0_1]"'),
    "one id without a list": ('["l0_1"]', '"l0_1"'),
    "an id that nobody offered": ('"l0_1"', '"l0_77"'),
    "no id": ('["l0_1"]', "[]"),
    "a type of its own": ('"persona"', '"semantic_fact"'),
    "a word for a number": ('"priority": 70', '"priority": "high"'),
    "a list for an object": ('"priority": 70', '"priority": 70, "metadata": ["x"]'),
}


@pytest.mark.parametrize("kind", [*RECOVERABLE, *BENT])
def test_what_can_be_read_without_doubt_is_kept_at_the_first_try(home: Home, kind: str) -> None:
    before = len(home.fake.calls(TASK))
    for number in range(3):
        text = scenes({"content": SAID + home.next_fact})
        if kind in BENT:
            text = text.replace(*BENT[kind])
        home.say(f"{kind}-{number}", RECOVERABLE.get(kind, "{answer}").replace("{answer}", text))
    assert home.flush()["idle"]
    assert len(home.fake.calls(TASK)) == before + 3
    home.assert_each_fact_is_stored_once_and_nothing_else()


NOTHING = (
    "I cannot extract memories from this conversation.",
    "I'll remember that for next time.",
    "好的，我会记住的。",
    "Could you clarify which lighthouse you mean?",
    "string",
    "A fact about somebody else names them and their relation to the person.",
    ["The user owns it."],
    "   ",
)


@pytest.mark.parametrize("empty", NOTHING, ids=[str(text)[:20] for text in NOTHING])
def test_an_item_that_says_nothing_costs_itself_alone(home: Home, empty: object) -> None:
    for number in range(3):
        good = SAID + home.next_fact
        answer = scenes({"content": good}, {"content": good}, {"content": empty})
        home.say(f"{str(empty)[:20]}-{number}", answer)
    assert home.flush()["idle"]
    home.assert_each_fact_is_stored_once_and_nothing_else()


@pytest.mark.parametrize("task", ["l2-scenes", "l3-persona"])
@pytest.mark.parametrize("mode", ["prose", "malformed"])
def test_a_spoilt_answer_never_replaces_a_good_text(home: Home, task: str, mode: str) -> None:
    home.say(f"{task}-{mode}")
    assert home.flush(parked=True)["idle"]
    data = Path(home.worker.endpoint["data_dir"])
    before = (data / "persona.md").read_text(encoding="utf-8")
    home.fake.fail(mode, times=3, task=task)
    fact = home.say(f"{task}-{mode}-again")
    home.flush(wait_seconds=1)
    assert (data / "persona.md").read_text(encoding="utf-8") in (before, _persona(data))
    assert "sorry" not in _persona(data).lower()
    home.fake.heal()
    assert home.flush(parked=True)["idle"]
    scenes_text = "".join(path.read_text(encoding="utf-8") for path in (data / "scene_blocks").glob("*.md"))
    assert fact in scenes_text
    assert "sorry" not in scenes_text.lower()


def _persona(data: Path) -> str:
    return (data / "persona.md").read_text(encoding="utf-8")
