"""Memory of the app's process while one session opens small models: `python benchmarks/opens.py [OPENS]`.

The largest resident memory within each part of so many opens (default: 400), in MB, over that within the first
twenty. Prints Markdown.
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
    code = [sys.executable, "-m", "tests.opens", str(count)]
    told = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    resident = [int(line) / 1e6 for line in told.split()]
    first = max(resident[:FIRST])
    print("| opens | largest memory (MB) | over that of the first 20 |\n|---|---|---|")
    for begin, end in pairwise([0, FIRST, *(end for end in (count // 4, count // 2, count) if end > FIRST)]):
        largest = max(resident[begin:end])
        print(f"| {begin + 1} to {end} | {largest:.0f} | {largest / first:.2f} |")


if __name__ == "__main__":
    main()
