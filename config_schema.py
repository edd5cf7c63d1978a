"""The settings panel for `hermes plugins install <this repository>`. The host loads this file by its path, outside of
any package, so that the real one is found by its path too."""

import runpy
from pathlib import Path

CONFIG_SCHEMA = runpy.run_path(str(Path(__file__).parent / "memory_tencentdb" / "config_schema.py"))["CONFIG_SCHEMA"]
