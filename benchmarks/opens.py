"""Memory of the app's process while one session opens small models: `python benchmarks/opens.py [OPENS]`.

For each part of the opens (default: 400): the largest resident memory in MB, and its ratio to that of the first twenty
opens. Prints Markdown.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST = 20


def main() -> None:
    count = int(sys.argv[1]) if sys.argv[1:] else 400
    command = [sys.executable, "-m", "tests.opens", str(count)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    resident = [int(line) / 1e6 for line in output.split()]
    first = max(resident[:FIRST])
    print("| opens | largest memory (MB) | over that of the first 20 |\n|---|---|---|")
    for begin, end in pairwise([0, FIRST, *(end for end in (count // 4, count // 2, count) if end > FIRST)]):
        largest = max(resident[begin:end])
        print(f"| {begin + 1} to {end} | {largest:.0f} | {largest / first:.2f} |")


if __name__ == "__main__":
    main()
