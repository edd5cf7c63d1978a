"""Finds the stub worker for the provider's tests, as a module and as a command."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path
from types import ModuleType

STUB = Path(__file__).with_name("provider") / "stub_worker.py"


def load_stub() -> ModuleType:
    """The module, loaded by its path: tests are no package."""
    if "provider_stub_worker" not in sys.modules:
        spec = importlib.util.spec_from_file_location("provider_stub_worker", STUB)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return sys.modules["provider_stub_worker"]


def stub_command(*options: str) -> str:
    return shlex.join([sys.executable, str(STUB), *options, "run"])
