"""Names of things: ids that say the same for the same input, so that a replay cannot make a second copy."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable

from memory_tencentdb_worker.models import AtomType


def text_hash(text: str) -> str:
    """SHA-256 (hex) of the text's UTF-8. A lone surrogate hashes too, so that no text is without a hash."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def turn_id() -> str:
    """A new random id, for a caller that brought none."""
    return f"t_{secrets.token_hex(12)}"


def message_id(scope: str, session_key: str, turn_id: str, position: int) -> str:
    """The id of the message at `position` in a turn; the same for every replay of the turn."""
    return "l0_" + _digest((scope, session_key, turn_id, str(position)))


def atom_id(scope: str, type: AtomType, content: str, source_ids: Iterable[str]) -> str:
    """The id of a fact drawn from these messages; their order does not matter."""
    return "m_" + _digest((scope, str(type), content, *sorted(set(source_ids))))


def _digest(parts: tuple[str, ...]) -> str:
    """Sixteen hex digits. Each part goes in with its length, so that moving a border makes another id."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode("ascii"))
        digest.update(data)
    return digest.hexdigest()[:16]
