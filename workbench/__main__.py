"""`python -m workbench COMMAND`: the command line, see `workbench/cli/main.py`."""

from workbench.cli.main import main, program

__all__ = ["main"]

if __name__ == "__main__":
    program()
