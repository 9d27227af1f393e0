"""`python -m workbench COMMAND`: the command line, see `workbench/interfaces/cli/main.py`."""

import sys

try:
    from workbench.interfaces.cli.main import main, program
except ModuleNotFoundError as error:
    if error.name is None or error.name.startswith("workbench"):
        raise
    sys.exit(f"workbench: this Python has no package '{error.name}'; run `make setup`, then .venv/bin/python")

__all__ = ["main"]

if __name__ == "__main__":
    program()
