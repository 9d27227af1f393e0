"""`python -m workbench COMMAND`: the command line, see `workbench/cli/main.py`."""

from __future__ import annotations

import gc
import sys

from workbench.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    gc.set_threshold(100_000)  # what a command makes lives to its end: looking for cycles in it only takes time
    sys.exit(main())
