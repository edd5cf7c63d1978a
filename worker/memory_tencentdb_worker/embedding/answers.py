"""Reads an embeddings answer: which vector belongs to which text, and whether it is one."""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Sequence

from memory_tencentdb_worker.embedding.base import Vector
from memory_tencentdb_worker.errors import EmbeddingRefused

_FLOAT_BYTES = 4
_USAGE = re.compile(rb'"usage"\s*:\s*\{([^{}]*)\}')
_TOKENS = re.compile(rb'"(?:prompt|total)_tokens"\s*:\s*([0-9]{1,12})\b')


def vectors_in_order(document: object, count: int, rows: str = "data") -> list[object] | None:
    """The raw vectors of the list `rows`, in the order of the texts; None when the answer does not say which belongs to
    which, or when it holds more or fewer than were asked for."""
    data = document.get(rows) if isinstance(document, dict) else None
    if not isinstance(data, list) or len(data) != count or not all(isinstance(row, dict) for row in data):
        return None
    places = [row.get("index") for row in data]
    if all(place is None for place in places):
        return [row.get("embedding") for row in data]
    if any(type(place) is not int for place in places) or set(places) != set(range(count)):
        return None
    return [row.get("embedding") for row in sorted(data, key=lambda row: int(row["index"]))]


def tokens_of(body: bytes) -> int | None:
    """What the answer says it has cost; None when it does not say. Looked for without parsing a megabyte of vectors."""
    usage = _USAGE.search(body)
    named = [int(count) for count in _TOKENS.findall(usage[1])] if usage else []
    return next((count for count in named if count > 0), None)


def unit_vector(raw: object, dimensions: int) -> Vector | None:
    """Normalised to length 1; None for what is no direction at all: null, zero, NaN, infinite, not numbers.

    Raises EmbeddingRefused when the width is another: then the model or the setting is wrong, not the text.
    """
    values = _decoded(raw) if isinstance(raw, str) else raw
    if not isinstance(values, list) or not values:
        return None
    if len(values) != dimensions:
        raise EmbeddingRefused(
            f"the endpoint's vectors have {len(values)} dimensions, the setting says {dimensions}", code="wrong_width"
        )
    if not all(type(value) in (int, float) for value in values):
        return None
    return _normalised(values)


def _normalised(values: Sequence[float]) -> Vector | None:
    try:
        length = math.hypot(*values)
    except OverflowError:
        return None
    if not math.isfinite(length) or length == 0:
        return None
    unit = [value / length for value in values]
    return unit if any(unit) and all(map(math.isfinite, unit)) else None


def _decoded(text: str) -> list[float] | None:
    """Some endpoints send base64 of little-endian float32, asked for or not (field trap B79)."""
    try:
        packed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(packed) % _FLOAT_BYTES:
        return None
    return list(struct.unpack(f"<{len(packed) // _FLOAT_BYTES}f", packed))
