"""One fixture over every backend: a test that takes `store` or `opened` runs on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contracts.turns import NOW
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.sqlite import open_store

Open = Callable[[Path], Store]

BACKENDS: dict[str, Open] = {"sqlite": lambda data_dir: open_store(data_dir, NOW)}


@pytest.fixture(params=list(BACKENDS))
def open_backend(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens a data directory; whatever was opened is closed at the end."""
    opened: list[Store] = []

    def open_dir(data_dir: Path) -> Store:
        opened.append(BACKENDS[request.param](data_dir))
        return opened[-1]

    yield open_dir
    for store in opened:
        store.close()


@pytest.fixture
def store(open_backend: Open, tmp_path: Path) -> Store:
    return open_backend(tmp_path / "data")
