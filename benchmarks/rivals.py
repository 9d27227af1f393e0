"""Models through every optimizer that is here: `python benchmarks/rivals.py [MODEL or FOLDER ...]`.

What `rivals MODEL` prints, for all models given, as tables: nodes left, latency in ONNX Runtime by turns, and who is
wrong, with the optimizer of ONNX Runtime without which it is right, where that is the one. --known: the graphs of
`tests/known_wrong.py`, after public reports, on which a tool is wrong or fails, with the rewrite that verification
blames.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import workbench as wb  # noqa: E402
from workbench.api import optimize  # noqa: E402
from workbench.run.worker.client import Worker  # noqa: E402
from workbench.study.compare_tools.comparing import ORIGINAL, OURS, RivalResult, compare_rivals, rivals_here  # noqa: E402
from workbench.verification.verifier import Verifier  # noqa: E402

Found = Mapping[str, RivalResult]
_LONGEST = 110  # characters of a sentence in a table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help=".onnx files, or folders of them")
    parser.add_argument("--known", action="store_true", help="graphs on which other tools are known to be wrong")
    chosen = parser.parse_args()
    if chosen.known:
        print_known()
        return
    files = [file for path in chosen.models for file in (sorted(path.glob("*.onnx")) if path.is_dir() else [path])]
    rows = {file.stem: through_all(file) for file in files}
    versions = {name: f"{name} {one.rival.version}".rstrip() for name, one in next(iter(rows.values())).items()}
    table("nodes left", versions, {name: [_nodes(one) for one in found.values()] for name, found in rows.items()})
    table("latency (ms)", versions, {name: [_latency(one) for one in found.values()] for name, found in rows.items()})
    for name, found in rows.items():
        for tool, one in found.items():
            if one.row()["failed"]:
                print(f"{name}, {tool}: {one.row()['failed']}")


def through_all(file: Path) -> Found:
    print(file.stem, file=sys.stderr)
    graph = wb.load(file)
    with tempfile.TemporaryDirectory() as folder, Verifier(graph) as verifier:
        return compare_rivals(graph, rivals_here(), Path(folder), verifier)


def table(what: str, versions: Mapping[str, str], rows: Mapping[str, list[str]]) -> None:
    print(f"\n| {what} | {' | '.join(versions.values())} |")
    print(f"|{'---|' * (len(versions) + 1)}")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |")
    print()


def _nodes(one: RivalResult) -> str:
    if one.nodes is None:
        return "failed"
    wrong = one.verdict is not None and one.verdict.ok is False
    return f"{one.nodes:,}{', wrong' if wrong else ''}"


def _latency(one: RivalResult) -> str:
    median = one.row()["median_ms"]
    return "-" if median is None else f"{median:,.2f}"


# ---- known wrong results ------------------------------------------------------------------


def print_known() -> None:
    from tests.known_wrong import CASES

    print("| report | tool | what goes wrong | in which rewrite |")
    print("|---|---|---|---|")
    with Worker() as worker:
        for source, text in {case.source: case.text for case in CASES}.items():
            for tool, why, blamed in wrong_tools(text, worker):
                print(f"| {source} | {tool} | {why[:_LONGEST]} | {blamed[:_LONGEST]} |", flush=True)


def wrong_tools(text: str, worker: Worker) -> Iterator[tuple[str, str, str]]:
    """The tools that fail on the graph or change its results: tool, sentence, the rewrite to blame."""
    from tests.running import typed

    told: set[tuple[str, str]] = set()  # a higher level of a tool fails as the lower one does
    for rival in rivals_here():
        if rival.name in (ORIGINAL, OURS) or rival.missing:
            continue
        name, _, level = rival.name.partition(":")
        graph = typed(text)
        with Verifier(graph, worker=worker) as verifier:
            options = {f"{name}.level": level} if level else {}
            step = optimize(graph, [name], verifier=verifier, verify="end", options=options)[1]
        failed = getattr(step.facts, "failed", "")
        if failed and (name, failed) not in told:
            told.add((name, failed))
            yield rival.name, failed, "-"
        elif step.verdict is not None and step.verdict.ok is False:
            blamed = "-" if step.broken_by is None else step.rewrites[step.broken_by].sentence
            yield rival.name, step.verdict.sentence, blamed


if __name__ == "__main__":
    main()
