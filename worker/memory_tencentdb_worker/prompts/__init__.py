"""The system messages of our model calls, one Markdown file each (CONTRACT section 9)."""

from __future__ import annotations

from importlib.resources import files


def load(name: str) -> str:
    """The text of `<name>.md`. A task's file begins with its marker line."""
    return files("memory_tencentdb_worker.prompts").joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
