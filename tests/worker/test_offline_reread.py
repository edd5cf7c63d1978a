"""A model that appears reads again what only rules have read, and its facts take the places of theirs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw

import fake_openai
from layer_parts import START, ScriptedLLM, capture, message_ids
from memory_tencentdb.protocol import STATUS
from memory_tencentdb_worker.config.model import Config, Extraction, Memory
from memory_tencentdb_worker.errors import LLMTransient
from memory_tencentdb_worker.models import Atom, AtomChanges, CompletionRequest, NewAtom, Origin, Source
from memory_tencentdb_worker.store.schema import MIGRATIONS
from memory_tencentdb_worker.text.ids import atom_id
from pipeline_parts import Stepped, stepped
from processes import FAST_PIPELINE, WorkerProcess

CONFIG = Config()
HOUR = 3_600_000


def says(*facts: tuple[str, str]) -> Any:
    """An extraction answer: (what the user said, what the model makes of it), as far as it was asked about it."""

    def reply(request: CompletionRequest) -> Any:
        ids = message_ids(request)
        memories = [
            {"content": content, "type": "persona", "priority": 70, "source_message_ids": [ids[said]]}
            for said, content in facts
            if said in ids
        ]
        return {"scenes": [{"scene_name": "talking", "message_ids": [], "memories": memories}]}

    return reply


def atoms(steps: Stepped) -> list[Atom]:
    return steps.store.atoms_between("", 0, START + 1_000 * HOUR)


def live(steps: Stepped) -> dict[str, str]:
    """Content -> who made it."""
    return {atom.content: atom.extractor for atom in atoms(steps) if atom.live}


def read_by_rules(data_dir: Path, *texts: str) -> None:
    with stepped(data_dir, None) as steps:
        for number, text in enumerate(texts):
            capture(steps.store, CONFIG, text, now=START + number)
        for _ in range(3):
            steps.clock.now += HOUR // 3
            steps.run()
        assert set(live(steps).values()) == {"rules"}


@contextmanager
def with_model(data_dir: Path, llm: ScriptedLLM) -> Iterator[Stepped]:
    with stepped(data_dir, llm) as steps:
        steps.clock.now += 2 * HOUR
        steps.run()
        yield steps


def test_the_models_facts_replace_the_rule_made_ones_and_keep_their_sources(tmp_path: Path) -> None:
    read_by_rules(tmp_path / "d", "I live in Porto.", "I'm allergic to peanuts.")
    llm = ScriptedLLM()
    llm.script(
        "l1-extraction",
        says(
            ("I live in Porto.", "User resides in Porto"),
            ("I'm allergic to peanuts.", "The user is allergic to peanuts."),
        ),
    )
    with with_model(tmp_path / "d", llm) as steps:
        assert live(steps) == {
            "User resides in Porto": "model:scripted",
            "The user is allergic to peanuts.": "model:scripted",
        }
        assert steps.store.turns_to_reread() == 0
        old = [atom for atom in atoms(steps) if atom.extractor == "rules"]
        new = {atom.id: atom for atom in atoms(steps) if atom.live}
        assert len(old) == 2
        assert [new[str(atom.superseded_by)].sources for atom in old] == [atom.sources for atom in old]
    assert len(llm.asked("l1-extraction")) == 1, "one call for all turns of the session"
    assert llm.asked("l1-reconcile") == [], "what is replaced anyway is nothing to compare with"


def test_what_the_model_says_nothing_of_stays(tmp_path: Path) -> None:
    read_by_rules(tmp_path / "d", "I live in Porto.", "I'm allergic to peanuts.")
    llm = ScriptedLLM()
    llm.script("l1-extraction", says(("I live in Porto.", "The user lives in Porto, Portugal")))
    with with_model(tmp_path / "d", llm) as steps:
        assert live(steps) == {
            "The user is allergic to peanuts.": "rules",
            "The user lives in Porto, Portugal": "model:scripted",
        }


def test_a_model_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    read_by_rules(tmp_path / "d", "I live in Porto.")
    llm = ScriptedLLM()
    llm.script("l1-extraction", LLMTransient("busy"))
    with with_model(tmp_path / "d", llm) as steps:
        assert live(steps) == {"The user lives in Porto.": "rules"}
        assert steps.store.turns_to_reread() == 1
        calls = len(llm.requests)
        assert steps.run() == 0, "the next try waits"
        assert len(llm.requests) == calls


def test_an_answer_that_cannot_be_used_is_parked_and_not_paid_for_again(tmp_path: Path) -> None:
    read_by_rules(tmp_path / "d", "I live in Porto.")
    llm = ScriptedLLM()
    llm.script("l1-extraction", "Sorry, I cannot help with that.")
    with with_model(tmp_path / "d", llm) as steps:
        assert live(steps) == {"The user lives in Porto.": "rules"}
        assert len(steps.store.list_parked()) == 1
        assert steps.run() == 0
        llm.script("l1-extraction", says(("I live in Porto.", "The user lives in Porto, Portugal")))
        steps.store.make_due(steps.clock(), expedite=True, parked=True)
        steps.run()
        assert live(steps) == {"The user lives in Porto, Portugal": "model:scripted"}


def test_a_statement_that_was_replaced_since_does_not_come_back(tmp_path: Path) -> None:
    first, second = "I live in Porto.", "I live in Lisbon."
    padding = [f"Message number {number} about the weather today." for number in range(12)]
    read_by_rules(tmp_path / "d", first, *padding, second)
    llm = ScriptedLLM()
    llm.script("l1-extraction", says((first, "User lives in Porto"), (second, "User lives in Lisbon")))
    with with_model(tmp_path / "d", llm) as steps:
        assert len(llm.asked("l1-extraction")) == 2, "the two are read with different batches"
        assert live(steps) == {"User lives in Lisbon": "model:scripted"}
        porto = next(atom for atom in atoms(steps) if atom.content == "User lives in Porto")
        assert porto.valid_to == START + 13, "until the other was said"


def test_what_a_person_has_corrected_stays_corrected(tmp_path: Path) -> None:
    read_by_rules(tmp_path / "d", "I live in Porto.")
    with stepped(tmp_path / "d", None) as steps:
        (wrong,) = atoms(steps)
        edit = edited(wrong, "The user lives in Faro.")
        steps.store.add_atoms(
            "", AtomChanges(add=(edit,), supersede=((wrong.id, edit.id),), extractor="owner"), lambda _: [], START
        )
    llm = ScriptedLLM()
    llm.script("l1-extraction", says(("I live in Porto.", "User lives in Porto")))
    with with_model(tmp_path / "d", llm) as steps:
        assert live(steps) == {"The user lives in Faro.": "owner"}


def edited(atom: Atom, content: str) -> NewAtom:
    return NewAtom(
        atom_id("", atom.type, content, ["edit"]),
        atom.type,
        content,
        atom.priority,
        atom.scene_name,
        Origin.OWNER_EDIT,
        tuple(Source(source.message_id, source.message_hash) for source in atom.sources),
        atom.session_key,
        atom.session_id,
    )


def test_new_turns_go_before_old_ones_and_nothing_is_read_twice(tmp_path: Path) -> None:
    read_by_rules(tmp_path / "d", "I live in Porto.")
    llm = ScriptedLLM()
    llm.script(
        "l1-extraction", says(("I live in Porto.", "User lives in Porto"), ("I play chess.", "User plays chess"))
    )
    with stepped(tmp_path / "d", llm) as steps:
        steps.clock.now += 2 * HOUR
        capture(steps.store, CONFIG, "I play chess.", now=steps.clock())
        steps.run()
        assert llm.requests == [], "a session that still talks is not read before its time"
        steps.clock.now += HOUR
        steps.run()
        asked = [list(message_ids(request)) for request in llm.asked("l1-extraction")]
        assert [texts[0] for texts in asked] == ["I play chess.", "I live in Porto."]
        steps.clock.now += HOUR
        steps.run()
        assert len(llm.asked("l1-extraction")) == 2


def test_without_a_model_or_when_switched_off_nothing_is_read_again(tmp_path: Path) -> None:
    read_by_rules(tmp_path / "d", "I live in Porto.")
    off = Config(memory=Memory(extraction=Extraction(reread_rule_made=False)))
    llm = ScriptedLLM()
    with stepped(tmp_path / "d", None) as steps:
        assert (steps.run(), steps.store.turns_to_reread(), steps.store.idle()) == (0, 0, True)
    with stepped(tmp_path / "d", llm) as steps:
        steps.model.use(replace(steps.model.parts, config=off))
        assert (steps.run(), steps.store.turns_to_reread(), steps.store.idle()) == (0, 0, True)
    assert llm.requests == []


def test_a_worker_that_gets_a_model_reads_again_and_why_still_leads_to_the_message(tmp_path: Path) -> None:
    pipeline = {"memory": {"pipeline": FAST_PIPELINE}}
    worker = WorkerProcess(tmp_path / "home", pipeline)
    worker.start()
    try:
        worker.capture("I live in Porto.", session="a")
        worker.capture("My sister Ana works in Coimbra.", session="b")
        assert worker.flush()["idle"]
        made = worker.post("/search/memories", {"query": "Porto"})["items"][0]["id"]
        worker.kill()
        with fake_openai.running() as endpoint:
            model = {"llm": {"model": "fake-model", "baseUrl": endpoint.url, "apiKey": "k"}}
            worker = WorkerProcess(tmp_path / "home", {**pipeline, **model})
            endpoint.fail("hang", task="l1-extraction", seconds=30)
            worker.start()
            until = time.monotonic() + 60  # the lane imports litellm before its first call
            while not endpoint.calls("l1-extraction"):
                assert time.monotonic() < until, "the model was never asked"
                time.sleep(0.02)
            waiting = worker.get(STATUS).json()["jobs"]["turns_to_reread"]
            worker.kill()
            endpoint.heal()
            worker.start()
            assert worker.flush()["idle"]
            found = worker.post("/search/memories", {"query": "Porto Coimbra"})["items"]
            assert waiting == 2
            assert sorted(item["text"] for item in found) == [
                "User said: I live in Porto.",
                "User said: My sister Ana works in Coimbra.",
            ]
            assert worker.get(STATUS).json()["jobs"]["turns_to_reread"] == 0
            for id in (made, found[0]["id"]):
                assert worker.get(f"/v1/why/{id}").json()["messages"][0]["hash_ok"] is True
            scenes = " ".join(path.read_text() for path in (tmp_path / "home/data/scene_blocks").glob("*.md"))
            assert "User said: I live in Porto." in scenes
            assert "The user lives in Porto." not in scenes
    finally:
        worker.stop()


def test_a_database_from_before_knows_what_rules_have_read() -> None:
    connection = apsw.Connection(":memory:")
    for _, step in MIGRATIONS[:3]:
        connection.execute(step)
    connection.execute("insert into turns values ('', 't', 's', 's', 1, 1, 'test', 2)")
    message = "insert into messages values (?, ?, '', 't', ?, 's', 's', 'user', 'user', 'I live in Porto.', 'h', 1, 1)"
    connection.executemany(message, [(1, "l0_1", 0), (2, "l0_2", 1)])
    connection.execute("insert into sessions(scope, session_key, session_id, last_seq, l1_cursor, last_active_at)"
                       " values ('', 's', 's', 2, 2, 1)")  # fmt: skip
    connection.execute("insert into atoms(seq, id, scope, type, content, priority, scene_name, scene_folded, origin,"
                       " extractor, session_key, session_id, valid_from, recorded_from) values (1, 'm_1', '',"
                       " 'persona', 'Lives in Porto.', 80, '', '', 'user', 'rules', 's', 's', 1, 1)")  # fmt: skip
    connection.execute("insert into atom_sources values (1, 1, 'h')")
    connection.execute(MIGRATIONS[3][1])
    assert connection.execute("select scope, session_key, from_seq, to_seq from rule_read").fetchall() == [
        ("", "s", 1, 2)
    ]
