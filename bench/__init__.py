"""Benchmarks: speed and quality claims live here, never in tests. `scripts/bench NAME` runs one."""
