"""`hermes memory_tencentdb ...` for `hermes plugins install <this repository>`, which looks for it here."""

from .memory_tencentdb.cli import memory_tencentdb_command, register_cli

__all__ = ["memory_tencentdb_command", "register_cli"]
