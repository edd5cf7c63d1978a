"""How many turns wait in a home's outbox: what providers kept on disk while the worker was away (read only)."""

from __future__ import annotations

from pathlib import Path

REFUSED = "refused.jsonl"


def waiting_turns(folder: Path) -> int:
    """Lines of all segments without those that a provider has noted as delivered."""
    segments = [path for path in folder.glob("*.jsonl") if path.name != REFUSED]
    return sum(max(0, _lines(segment) - _delivered(segment)) for segment in segments)


def _lines(segment: Path) -> int:
    try:
        return segment.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0  # a provider has just delivered and removed it


def _delivered(segment: Path) -> int:
    """The second number of `<segment>.done`; a provider replaces that file as a whole."""
    try:
        return int(segment.with_suffix(".done").read_text(encoding="ascii").split()[1])
    except (FileNotFoundError, ValueError, IndexError):
        return 0
