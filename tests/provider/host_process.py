"""A host of the provider as a process of its own, for what happens when hosts come all at once or end badly.

Usage: host_process.py HERMES_HOME END TEXT...: captures each text as one turn, then ends as END says. Log records from
WARNING upwards go to stderr.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from memory_tencentdb.provider import TencentDBMemoryProvider


def main(hermes_home: str, end: str, *texts: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    provider = TencentDBMemoryProvider()
    provider.initialize(f"s-{os.getpid()}", platform="cli", hermes_home=hermes_home)
    if end == "hold":
        link = provider._link
        assert link is not None
        assert link.wait_ready(30), link.reason
    for text in texts:
        provider.sync_turn(text, "Noted.")
    if end == "os._exit":
        os._exit(0)
    if end == "sys.exit":
        sys.exit(0)
    if end == "exception":
        raise RuntimeError("the host has a mistake of its own")
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "hold":
        print("captured", flush=True)
        time.sleep(120)


if __name__ == "__main__":
    main(*sys.argv[1:])
