"""Write docs/conformance.md from a run of ONNX's own cases: `python docs/make_conformance.py`, about a minute."""

import re
import sys
import textwrap
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

ABOUT = """\
Made by `python docs/make_conformance.py`, which runs the cases; a test fails where it is not up to date.

The onnx package ships cases of one operator each, with inputs and expected outputs. Each is loaded as a
file would be and run by the torch executor on the CPU. *Native*: the operator table's own functions
computed every operator, by torch (StringNormalizer by Python). *Fallback*: ONNX Runtime computed one, and
the executor named it. *Refused*: an error of one sentence, no result. *Disputed*: another result than
ONNX's, with a reason that a test holds. *Wrong*: any other result.

Element types, shapes, integers, booleans and strings must be equal; floats agree within the case's own
tolerances, for bfloat16 within two of its steps, as in ONNX's own runner. 2- and 4-bit integers are held in
bytes, 4-bit floats in float32. Of random results (Bernoulli, Dropout in training) only type and shape are
compared: no runtime draws numpy's numbers."""

CASES_IN_A_ROW = 4
LONGEST_REASON = 180  # characters
# The executor's sentence names a node and its operands, which differ from case to case.
NOT_RUN = re.compile(
    r"^Neither torch \((.*)\) nor ONNX Runtime can run .* on operands of .*?: \[ONNXRuntimeError\] : \d+ : \w+ : "
)


def document() -> str:
    """The page: totals, a row for each operator, and the reason of whatever is not native."""
    from tests.conformance import DISPUTED, FALLBACK, KINDS, REFUSED, WRONG, verdicts

    found = verdicts()
    total = Counter(v.kind for v in found)
    head = f"| cases | {' | '.join(KINDS)} |\n|{'---:|' * (len(KINDS) + 1)}"
    parts = [
        "# Conformance",
        ABOUT,
        f"{head}\n| {len(found):,} | {' | '.join(f'{total[kind]:,}' for kind in KINDS)} |",
        *(_reasons(kind, [v for v in found if v.kind == kind]) for kind in (WRONG, DISPUTED, REFUSED, FALLBACK)),
        "## Operators",
        "\n".join(_rows(found, KINDS)),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _reasons(kind, found) -> str:
    """A table of the cases of a kind; those of one operator and one reason side by side, a few in a row."""
    if not found:
        return ""
    groups: dict[tuple[str, str], list[str]] = {}
    for verdict in found:
        reason = NOT_RUN.sub(r"torch: \1; ONNX Runtime: ", verdict.reason)
        groups.setdefault((verdict.operator, reason), []).append(f"`{verdict.case}`")
    rows = [f"## {kind.capitalize()}", "", "| operator | reason | cases |", "|---|---|---|"]
    rows += [
        f"| {operator} | {_cell(reason)} | {', '.join(names[first : first + CASES_IN_A_ROW])} |"
        for (operator, reason), names in sorted(groups.items())
        for first in range(0, len(names), CASES_IN_A_ROW)
    ]
    return "\n".join(rows)


def _cell(text: str) -> str:
    return textwrap.shorten(text, LONGEST_REASON, placeholder=" ...").replace("|", "\\|")


def _rows(found, kinds) -> list[str]:
    counts: dict[str, Counter] = {}
    for verdict in found:
        counts.setdefault(verdict.operator, Counter())[verdict.kind] += 1
    rows = [f"| operator | {' | '.join(kinds)} |", f"|---|{'---:|' * len(kinds)}"]
    return rows + [f"| {op} | {' | '.join(str(counts[op][k] or '') for k in kinds)} |" for op in sorted(counts)]


if __name__ == "__main__":
    (HERE / "conformance.md").write_text(document(), encoding="utf-8")
