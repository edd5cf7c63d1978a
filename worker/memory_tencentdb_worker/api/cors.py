"""Which web pages a browser lets read the answers: the manual's allow-list."""

from __future__ import annotations

from collections.abc import Iterable

ANY = "*"

_MAY = ((b"access-control-allow-methods", b"GET, POST, OPTIONS"),
        (b"access-control-allow-headers", b"Content-Type, Authorization"))  # fmt: skip


class CrossOrigin:
    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.rstrip("/").lower().encode("utf-8") for origin in origins)

    def allows(self, origin: bytes) -> bool:
        return ANY.encode() in self._origins or origin.lower() in self._origins

    def headers(self, origin: bytes | None) -> list[tuple[bytes, bytes]]:
        """None without a list, which keeps browsers out. An origin in the list is repeated; `*` admits all."""
        if not self._origins:
            return []
        if ANY.encode() in self._origins:
            return [(b"access-control-allow-origin", b"*"), *_MAY]
        if origin is None or not self.allows(origin):
            return [(b"vary", b"Origin")]
        return [(b"access-control-allow-origin", origin), *_MAY, (b"vary", b"Origin")]
