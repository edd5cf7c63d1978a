"""A replay makes all memories again beside those in use, and nothing of the owner's is lost by changing over."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import apsw
import pytest

from layer_parts import START
from memory_tencentdb.wire import MemoryWriteRequest
from memory_tencentdb_worker.errors import NotFound, StoreError
from memory_tencentdb_worker.layers.hand_edits import apply_edits
from memory_tencentdb_worker.layers.memory_write import write_memory
from memory_tencentdb_worker.models import Filter, Line, Section
from memory_tencentdb_worker.service.trace import trace
from memory_tencentdb_worker.store.generations import files
from memory_tencentdb_worker.store.projections import Edit, Projector
from pipeline_parts import LetterEmbedder
from replay_parts import SECOND, ComputedLLM, Replayed, replaying

FACTS = ("I live in Porto.", "I work as a baker.", "My sister is called Ines.", "I play the cello every day.")


def begun(it: Replayed, model: str = SECOND) -> str:
    it.say(*FACTS)
    it.read()
    before = it.generations.content_hash(None)
    it.replay.begin(None, model)
    return before


def test_replay_changes_nothing_until_the_switch_and_a_rollback_brings_everything_back(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        before = begun(it)
        old = it.texts()
        made = it.finish()
        assert (it.generations.content_hash(None), it.texts()) == (before, old)
        it.replay.switch()
        assert it.generations.content_hash(None) == made != before
        assert it.texts() == sorted(f"Told: {text}" for text in old)
        assert it.store.idle()
        kept = it.generations.kept()
        assert kept is not None
        assert kept.hash == before
        it.replay.roll_back()
        assert (it.generations.content_hash(None), it.texts()) == (before, old)
        it.replay.roll_back()
        assert it.generations.content_hash(None) == made


def test_replay_that_was_interrupted_makes_what_an_undisturbed_one_makes(tmp_path: Path) -> None:
    with replaying(tmp_path / "one") as it:
        begun(it)
        undisturbed = it.finish()
    llm = ComputedLLM()
    with replaying(tmp_path / "two", llm) as it:
        it.say(*FACTS)
        it.read()
        llm.left = 1
        it.replay.begin(None, SECOND)
        assert llm.stopped.wait(10)
    with replaying(tmp_path / "two") as it:
        assert it.finish() == undisturbed


def test_readable_files_follow_the_memories_in_use(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        begun(it)
        projector = Projector(it.store, tmp_path / "data", UTC)
        projector.refresh()
        it.finish()
        for step in (it.replay.switch, it.replay.roll_back):
            step()
            assert projector.read_edits() == []
            projector.refresh()
            Projector(it.store, tmp_path / step.__name__, UTC).rebuild()
            assert readable(tmp_path / "data") == readable(tmp_path / step.__name__)


def test_search_finds_the_new_memories_and_no_longer_the_former_ones(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        begun(it)
        it.finish()
        it.replay.switch()
        found = [hit.atom.content for hit in it.store.search_atoms("cello", Filter(""), 5)]
        assert len(found) == 1
        assert found[0].startswith("Told: ")


def test_vectors_follow_the_memories_in_use(tmp_path: Path) -> None:
    embedder = LetterEmbedder()
    with replaying(tmp_path / "data") as it:
        it.store.use_space(embedder.space)
        begun(it)
        embed_all(it, embedder)
        (asked,) = embedder.embed(["cello"], kind="query", timeout_seconds=1)
        assert asked is not None
        assert len(it.store.nearest_atoms(asked, Filter(""), 9)) == len(FACTS)
        it.finish()
        it.replay.switch()
        assert it.store.nearest_atoms(asked, Filter(""), 9) == []
        embed_all(it, embedder)
        found = it.store.nearest_atoms(asked, Filter(""), 9)
        assert len(found) == len(FACTS)
        assert all(hit.atom.content.startswith("Told: ") for hit in found)
        counts = it.store.vector_counts()
        assert counts.rows == counts.embedded


def test_turns_that_come_meanwhile_are_caught_up_or_left_to_the_next_extraction(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        begun(it)
        it.finish()
        it.say("I collect old radios.")
        it.replay.switch()
        assert not any("radios" in text for text in it.texts())
        it.read()
        assert any("radios" in text for text in it.texts())


def test_what_the_owner_put_in_survives_switch_and_rollback(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        begun(it)
        it.finish()
        remember(it, "Never book flights before noon.", "w1")
        scene = it.store.scenes("")[0]
        mine = Section("Mine", (Line("Written by hand.", ()),))
        edit = Edit("", "scene", scene.name, (*scene.sections, mine), scene.summary)
        apply_edits([edit], it.store, START)
        it.replay.switch()
        assert_hand_made(it, scene.name)
        remember(it, "Tea, not coffee.", "w2")
        it.replay.roll_back()
        assert_hand_made(it, scene.name)
        assert any("Tea" in text for text in it.texts())


def ended_atoms(data_dir: Path) -> list[tuple[str, int, int | None]]:
    connection = apsw.Connection(str(data_dir / "memory.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(
            connection.execute("select content, valid_to, end_said_at from atoms where superseded_at is not null")
        )
    finally:
        connection.close()


def test_memory_that_the_host_replaced_during_a_replay_stays_replaced(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        remember(it, "Lives in Lisbon.", "w1")
        begun(it)
        it.finish()
        remember(it, "Lives in Braga.", "w2", action="replace", old_text="Lives in Lisbon.")
        ends = ended_atoms(tmp_path / "data")
        it.replay.switch()
        assert "Lives in Lisbon." not in it.texts()
        assert "Lives in Braga." in it.texts()
        assert ends
        assert all(end for *_, end in ends)
        assert set(ends) <= set(ended_atoms(tmp_path / "data")), "with the time at which that was said which ended it"


def test_forgotten_message_does_not_come_back_with_a_rollback(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        begun(it)
        it.finish()
        it.replay.switch()
        forget(it, "Ines")
        it.replay.roll_back()
        it.read()
        assert not any("Ines" in text for text in it.texts())
        assert not any("Ines" in str(scene.sections) for scene in it.store.scenes(""))
        assert any("cello" in text for text in it.texts())


def test_fact_that_rested_on_a_forgotten_message_too_is_drawn_again_from_the_others(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        it.say(FACTS[3], *FACTS)
        it.read()
        assert [len(atom.sources) for atom in it.atoms() if "cello" in atom.content] == [2]
        it.replay.begin(None, SECOND)
        it.finish()
        it.replay.switch()
        forget(it, "cello")
        it.replay.roll_back()
        assert not any("cello" in text for text in it.texts())
        it.read()
        assert [len(atom.sources) for atom in it.atoms() if "cello" in atom.content] == [1]


def test_shadow_that_holds_a_forgotten_message_is_not_switched_to(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        begun(it)
        it.finish()
        forget(it, "Ines")
        with pytest.raises(StoreError, match="abandon") as refused:
            it.replay.switch()
        assert refused.value.code == "replay_outdated"
        it.replay.abandon()
        assert files(tmp_path / "data") == []


def test_forgetting_can_take_every_generation_away(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        begun(it)
        it.finish()
        it.replay.switch()
        it.replay.begin(None, SECOND)
        paths = files(tmp_path / "data")
        assert len(paths) == 2
        private = [*paths, *(path.parent for path in paths), paths[0].parent.parent]
        assert {path.stat().st_mode & 0o077 for path in private} == {0}
        assert it.replay.drop_generations() == 2
        assert files(tmp_path / "data") == []
        with pytest.raises(StoreError) as refused:
            it.replay.roll_back()
        assert refused.value.code == "nothing_kept"


def test_fact_that_was_forgotten_alone_does_not_come_back(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        begun(it)
        it.finish()
        gone = next(atom for atom in it.atoms() if "Ines" in atom.content)
        mark = it.store.stones.fact(f"Told: {gone.content}")
        with it.store.database.write() as connection:
            connection.execute(
                "insert into tombstones(scope, kind, mark, at) values ('', 'fact', ?, ?)", (mark, START + 1)
            )
        it.replay.switch()
        it.read()
        assert not any("Ines" in text for text in it.texts())
        assert not any("Ines" in str(scene.sections) for scene in it.store.scenes(""))


def test_only_the_replayed_user_changes(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        it.say(*FACTS, scope="ada", session="a")
        it.say(*FACTS)
        it.read()
        it.replay.begin("ada", SECOND)
        it.finish()
        it.replay.switch()
        assert all(text.startswith("Told: ") for text in it.texts("ada"))
        assert not any(text.startswith("Told: ") for text in it.texts(""))


def test_why_resolves_an_id_that_only_the_kept_generation_knows(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        begun(it)
        former = it.atoms()[0]
        it.finish()
        kept = it.replay.switch()
        answer = trace(former.id, it.store, UTC, former=it.generations.kept_atom)
        assert (answer.generation, answer.text) == (kept.id, former.content)
        assert [message.hash_ok for message in answer.messages] == [True]
        with pytest.raises(NotFound):
            trace("m_0000000000000000", it.store, UTC, former=it.generations.kept_atom)


def test_unfinished_replay_is_refused_and_a_second_one_too(tmp_path: Path) -> None:
    llm = ComputedLLM()
    with replaying(tmp_path / "data", llm) as it:
        it.say(*FACTS)
        it.read()
        llm.left = 1
        it.replay.begin(None, SECOND)
        assert llm.stopped.wait(10)
        llm.gate.set()
        with pytest.raises(StoreError) as second:
            it.replay.begin(None, SECOND)
        assert second.value.code == "replay_exists"
        it.replay.abandon()
        with pytest.raises(StoreError) as refused:
            it.replay.switch()
        assert refused.value.code == "replay_not_ready"


def test_files_of_a_crashed_start_are_taken_away(tmp_path: Path) -> None:
    left = tmp_path / "data" / ".generations" / "left" / "memory.db"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    with replaying(tmp_path / "data"):
        assert files(tmp_path / "data") == []


def test_calls_of_a_replay_stand_in_the_ledger_under_its_name(tmp_path: Path) -> None:
    with replaying(tmp_path / "data") as it:
        begun(it)
        it.finish()
        shadow = it.generations.shadow()
        assert shadow is not None
        assert it.store.calls_since(0, generation=shadow.id).calls >= 3
        assert {one.model for one in it.store.call_sums(0, START + 1)} == {"first-model", SECOND}


def embed_all(it: Replayed, embedder: LetterEmbedder) -> None:
    texts = it.store.texts_to_embed(100)
    vectors = embedder.embed([one.text for one in texts], kind="passage", timeout_seconds=1)
    it.store.put_vectors(list(zip(texts, vectors, strict=True)), "", START)


def readable(data_dir: Path) -> dict[str, str]:
    found = [*data_dir.glob("records/*"), *data_dir.glob("scene_blocks/*.md"), *data_dir.glob("persona.md")]
    assert len(found) >= 2
    return {str(path.relative_to(data_dir)): path.read_text(encoding="utf-8") for path in found}


def remember(it: Replayed, text: str, write_id: str, *, action: str = "add", old_text: str = "") -> None:
    request = MemoryWriteRequest(
        action=action, target="memory", content=text, session_key="h", write_id=write_id, old_text=old_text
    )
    write_memory(request, it.store, it.config, UTC, START)


def assert_hand_made(it: Replayed, scene: str) -> None:
    assert any("flights" in text for text in it.texts())
    kept = it.store.scene("", scene)
    assert kept is not None
    assert "Written by hand." in [line.text for section in kept.sections for line in section.lines]


def forget(it: Replayed, word: str) -> None:
    """As forgetting does it to L0 and to what rests on it, in the store in use only."""
    with it.store.database.write() as connection:
        (seq,) = connection.execute("select seq from messages where text like ?", (f"%{word}%",)).fetchone()
        connection.execute("delete from atoms where seq in (select atom from atom_sources where message = ?)", (seq,))
        connection.execute("delete from messages where seq = ?", (seq,))
