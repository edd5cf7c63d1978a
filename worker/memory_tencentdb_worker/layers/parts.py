"""What a layer works with. The loop puts it together for each job; tests do so by hand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import tzinfo

from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.embedding.base import Embedder
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import NewAtom
from memory_tencentdb_worker.store.base import Store

HELD_LIMIT = 64


@dataclass(frozen=True)
class Extraction:
    """What a model (or the rules) found in one batch, before it is compared with what is known."""

    atoms: tuple[NewAtom, ...]
    scene_name: str
    refused: int  # items that cannot be read or rest on no message
    over_limit: int = 0  # good ones that were too many


class HeldExtractions:
    """Extractions whose job could not be finished, so that the retry does not pay for the same answer again.

    Only the latest are held, in memory: after a restart the batch is extracted anew.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, Extraction] = OrderedDict()

    def get(self, key: Hashable) -> Extraction | None:
        return self._held.get(key)

    def keep(self, key: Hashable, extraction: Extraction) -> None:
        self._held[key] = extraction
        self._held.move_to_end(key)
        while len(self._held) > HELD_LIMIT:
            self._held.popitem(last=False)

    def drop(self, key: Hashable) -> None:
        self._held.pop(key, None)


@dataclass(frozen=True)
class Parts:
    """`llm` None is the offline mode; `embedder` None means lexical search only."""

    store: Store
    llm: LLM | None
    embedder: Embedder | None
    config: Config
    zone: tzinfo
    held: HeldExtractions = field(default_factory=HeldExtractions)
