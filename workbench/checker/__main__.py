"""The checker as a separate command without the engine: `python -m workbench.checker MODEL OUT.onnx C.json`."""

from __future__ import annotations

import argparse
import io
import sys

from workbench.checker.command import CANNOT, add_arguments, checked_command
from workbench.checker.outcome import Unreadable

if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m workbench.checker", description="re-checks a result by its certificate")
    add_arguments(parser)
    chosen = parser.parse_args()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a character that the terminal cannot show is written as its code
            stream.reconfigure(errors="backslashreplace")
    try:
        lines, code = checked_command(chosen)
    except Unreadable as error:
        print(f"cannot be checked: {error}", file=sys.stderr)
        sys.exit(CANNOT)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    print("\n".join(lines))
    sys.exit(code)
