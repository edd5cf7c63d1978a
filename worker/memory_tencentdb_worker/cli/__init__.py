"""The `memory-tencentdb` command. Everything heavy is imported by the command that needs it."""

from memory_tencentdb_worker.cli.main import main

__all__ = ["main"]
