"""Two hundred turns in English, Chinese and a mixture: exactly what the table says is remembered.

Over a real store and real HTTP, without the worker around it: `scripts/bench tokens` makes the same with one.
"""

from __future__ import annotations

from pathlib import Path

from layer_parts import capture
from memory_tencentdb_worker.config.model import Config
from pipeline_parts import HttpLLM, stepped
from planted import differences, kept_atoms, sessions, turns

CONFIG = Config()


def test_what_two_hundred_turns_leave_behind_is_what_the_table_says(tmp_path: Path, model_url: str) -> None:
    said = turns()
    with stepped(tmp_path / "data", HttpLLM(model_url)) as run:
        for session, group in sessions(said):
            for turn in group:
                more = {"session_key": session, "turn_id": turn.id, "at": turn.at}
                capture(run.store, CONFIG, turn.user, turn.assistant, now=run.clock(), **more)
            run.store.make_due(run.clock(), expedite=True)
            run.run()
    assert differences(said, kept_atoms(tmp_path / "data")) == []
