"""Secrets in what was stored before there was redaction, or under other settings: found, shown as marks, rewritten."""

from __future__ import annotations

from typing import Any

from memory_tencentdb.redaction import Redactor
from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.redacting import Redacting, Unredacted

SHORTEST_PIECE = 8
"""A shorter secret, as a PIN, stands in many a number: it is not looked for in logs and copies."""
SHOWN_MARKS = 200


class SecretScan:
    """Thread-safe. What it does to rows is one transaction a scope; files are the forgetting's business."""

    def __init__(self, redacting: Redacting, store: Store, redactor: Redactor) -> None:
        self._redacting, self._store, self._redactor = redacting, store, redactor

    def find(self) -> list[Unredacted]:
        """Raises InvalidInput while redaction is switched off, StoreError."""
        if not self._redactor.enabled:
            raise InvalidInput("memory.secrets.enabled is false: nothing is looked for")
        looks = [self._redacting.look(scope, self._redactor.redact) for scope in self._store.scopes()]
        return [one for one in looks if one.rows]

    def rewrite(self, scope: str, operation: str, now: int) -> None:
        """Looks again, so that it may be repeated after a crash. Raises StoreError."""
        self._redacting.rewrite(
            self._redacting.look(scope, self._redactor.redact), self._redactor.redact, operation, now
        )

    def secrets_in(self, found: Unredacted) -> list[str]:
        """Word for word, those that are long enough to be looked for elsewhere."""
        spans = ((text, one) for text in found.texts for one in self._redactor.find(text))
        secrets = {text[one.start : one.end] for text, one in spans}
        return sorted(secret for secret in secrets if len(secret) >= SHORTEST_PIECE)

    def plan(self, looks: list[Unredacted]) -> dict[str, Any]:
        """What a person is shown: marks, never a secret."""
        marks: dict[str, int] = {}
        for text in (text for one in looks for text in one.texts):
            for found in self._redactor.find(text):
                mark = f"{found.kind}:{self._redactor.fingerprint(text[found.start : found.end])}"
                marks[mark] = marks.get(mark, 0) + 1
        return {
            "messages": sum(len(one.messages) for one in looks),
            "atoms": sum(len(one.atoms) for one in looks),
            "revisions": sum(len(one.scenes) + len(one.personas) for one in looks),
            "secrets": [{"mark": mark, "places": count} for mark, count in sorted(marks.items())[:SHOWN_MARKS]],
            "more": max(0, len(marks) - SHOWN_MARKS),
        }
