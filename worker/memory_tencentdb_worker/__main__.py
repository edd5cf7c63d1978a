"""`python -m memory_tencentdb_worker run ...`: the same command line as `memory-tencentdb`."""

import sys

from memory_tencentdb_worker.cli import main

if __name__ == "__main__":
    sys.exit(main())
