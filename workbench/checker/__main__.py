"""The checker as a command of its own: `python -m workbench.checker MODEL OUT.onnx C.json`, which loads no engine."""

from __future__ import annotations

import sys

from workbench.checker.checking import check_files, report_lines
from workbench.checker.outcome import DoesNotHold, Unreadable

if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python -m workbench.checker MODEL OUT.onnx C.json")
    try:
        print("\n".join(report_lines(check_files(*sys.argv[1:]))))
    except DoesNotHold as first:
        print(f"does not hold: {first}")
        sys.exit(1)
    except Unreadable as error:
        print(f"cannot be checked: {error}", file=sys.stderr)
        sys.exit(2)
