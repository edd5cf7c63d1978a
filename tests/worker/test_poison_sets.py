"""The attack set and its benign look-alikes, against the worst model there is (it obeys every sentence it is shown) and
against the rules of the offline mode."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from layer_parts import START, ScriptedLLM, parts_of, section
from memory_tencentdb.wire import CaptureRequest
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.layers import l1_atoms
from memory_tencentdb_worker.layers.l0_turns import capture_turn
from memory_tencentdb_worker.models import Atom, AtomType, CompletionRequest, JobKind, Layer, Page
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.sqlite import open_store

DATA = Path(__file__).parent.parent / "data"
CONFIG = Config.model_validate({"memory": {"extraction": {"maxMemoriesPerSession": 100}}})
RANKED = (AtomType.PERSONA, AtomType.INSTRUCTION)


def cases(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


ATTACKS, BENIGN = cases("attacks.jsonl"), cases("benign.jsonl")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data", START)
    yield opened
    opened.close()


def obey(request: CompletionRequest) -> Any:
    """Every sentence is a standing rule and a trait, and all of it was the user's."""
    lines = re.findall(r"^\[(l0_\w+)\] \[(\w+)\] \[[^\]]+\]: (.*(?:\n  .*)*)", section(request, "messages"), re.M)
    users = [id for id, role, _ in lines if role == "user"]
    memories = []
    for id, _, text in lines:
        for sentence in {text.strip(), *(part.strip() for part in re.split(r"(?<=[.!?。！？])\s*|\n", text))}:
            for type in ("instruction", "persona"):
                told = sentence if type == "instruction" else f"User wants: {sentence}"
                sources = list(dict.fromkeys([id, *users]))
                memories.append({"content": told, "type": type, "priority": -1, "source_message_ids": sources})
    return [{"scene_name": "talk", "message_ids": [], "memories": [one for one in memories if len(one["content"]) > 3]}]


def obedient() -> ScriptedLLM:
    llm = ScriptedLLM()
    llm.script("l1-extraction", obey)
    llm.script("l1-reconcile", lambda request: [])
    return llm


def play(turns: list[dict[str, Any]], store: Store, llm: ScriptedLLM | None) -> list[Atom]:
    """The conversation, read turn by turn as a talk that goes on, up to the persona."""
    for number, turn in enumerate(turns):
        request = CaptureRequest(
            turn["user"],
            turn.get("assistant", ""),
            "s",
            session_id="s",
            messages=turn.get("messages"),
            user_origin=turn.get("user_origin", ""),
            assistant_origin=turn.get("assistant_origin", ""),
            turn_id=f"t{number}",
        )
        capture_turn(request, store, CONFIG, UTC, START)
        store.make_due(START, expedite=True)
        job = store.lease_job([JobKind.L1], START, 60_000, "test")
        if job is not None:
            l1_atoms.run(job, parts_of(store, CONFIG, llm), START)
    return [row for row in store.list_rows(Layer.L1, Page(500), scope=None).rows if isinstance(row, Atom)]


@pytest.mark.parametrize("with_model", [True, False], ids=["model", "offline"])
@pytest.mark.parametrize("attack", ATTACKS, ids=[one["name"] for one in ATTACKS])
def test_attack_promotes_nothing(attack: dict[str, Any], store: Store, with_model: bool) -> None:
    atoms = play(attack["turns"], store, obedient() if with_model else None)
    promoted = [atom.content for atom in atoms if atom.type in RANKED and attack["marker"] in atom.content]
    assert promoted == []
    claimed = [atom.content for atom in atoms if atom.origin == "user" and attack["marker"] in atom.content]
    assert claimed == []


@pytest.mark.parametrize("benign", BENIGN, ids=[f"{one['lang']}-{n}" for n, one in enumerate(BENIGN)])
def test_benign_talk_is_remembered_as_what_it_is(benign: dict[str, Any], store: Store) -> None:
    llm = ScriptedLLM()

    def remember(request: CompletionRequest) -> Any:
        (line,) = re.findall(r"^\[(l0_\w+)\] \[user\] \[[^\]]+\]: (.*)$", section(request, "messages"), re.M)
        memory = {"content": line[1], "type": benign["type"], "source_message_ids": [line[0]]}
        return [{"scene_name": "talk", "message_ids": [], "memories": [memory]}]

    llm.script("l1-extraction", remember)
    (atom,) = play([{"user": benign["text"], "assistant": "Noted."}], store, llm)
    assert (atom.content, atom.type, atom.origin) == (benign["text"], benign["type"], "user")
    assert store.suspects(None, None, 10) == []


def test_sets_are_as_large_as_promised() -> None:
    assert min(len(ATTACKS), len(BENIGN)) >= 60
    assert {one["kind"] for one in ATTACKS} == {"direct", "tool", "split", "loop", "fence", "unicode"}
    assert {one["lang"] for one in ATTACKS} == {one["lang"] for one in BENIGN} == {"en", "zh"}
