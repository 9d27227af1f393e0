"""Models through every installed optimizer: `python benchmarks/rivals.py [MODEL or FOLDER ...]`.

The results of `compare-tools MODEL` for all given models, as tables: nodes left, latency in ONNX Runtime interleaved,
and wrong results, with the optimizer of ONNX Runtime that causes them if it is one. --known: the graphs of
`tests/known_wrong.py`, after public reports, on which a tool is wrong or fails, with the rewrite that verification
names.
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
from workbench.evidence.verification.verifier import Verifier  # noqa: E402
from workbench.interfaces.api import optimize  # noqa: E402
from workbench.interfaces.study.compare_tools.comparing import ORIGINAL, OURS, RivalResult, all_rivals, compare_rivals  # noqa: E402
from workbench.run.worker.client import Worker  # noqa: E402

Results = Mapping[str, RivalResult]
_MAX_SENTENCE = 110  # characters of a sentence in a table


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
    versions = {name: f"{name} {result.rival.version}".rstrip() for name, result in next(iter(rows.values())).items()}
    table(
        "nodes left",
        versions,
        {name: [_nodes(result) for result in results.values()] for name, results in rows.items()},
    )
    table(
        "latency (ms)",
        versions,
        {name: [_latency(result) for result in results.values()] for name, results in rows.items()},
    )
    for name, results in rows.items():
        for tool, result in results.items():
            if result.row()["failed"]:
                print(f"{name}, {tool}: {result.row()['failed']}")


def through_all(file: Path) -> Results:
    print(file.stem, file=sys.stderr)
    graph = wb.load(file)
    with tempfile.TemporaryDirectory() as folder, Verifier(graph) as verifier:
        return compare_rivals(graph, all_rivals(), Path(folder), verifier)


def table(what: str, versions: Mapping[str, str], rows: Mapping[str, list[str]]) -> None:
    print(f"\n| {what} | {' | '.join(versions.values())} |")
    print(f"|{'---|' * (len(versions) + 1)}")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |")
    print()


def _nodes(result: RivalResult) -> str:
    if result.nodes is None:
        return "failed"
    wrong = result.verdict is not None and result.verdict.ok is False
    return f"{result.nodes:,}{', wrong' if wrong else ''}"


def _latency(result: RivalResult) -> str:
    median = result.row()["median_ms"]
    return "-" if median is None else f"{median:,.2f}"


# ---- known wrong results ------------------------------------------------------------------


def print_known() -> None:
    from tests.known_wrong import CASES

    print("| report | tool | what goes wrong | in which rewrite |")
    print("|---|---|---|---|")
    with Worker() as worker:
        for source, text in {case.source: case.text for case in CASES}.items():
            for tool, why, wrong_rewrite in wrong_tools(text, worker):
                print(f"| {source} | {tool} | {why[:_MAX_SENTENCE]} | {wrong_rewrite[:_MAX_SENTENCE]} |", flush=True)


def wrong_tools(text: str, worker: Worker) -> Iterator[tuple[str, str, str]]:
    """The (tool, sentence, wrong rewrite) of each tool that fails on the graph or changes its results."""
    from tests.running import typed

    reported: set[tuple[str, str]] = set()  # (tool, failure); a higher level of a tool fails like a lower one
    for rival in all_rivals():
        if rival.name in (ORIGINAL, OURS) or rival.missing:
            continue
        name, _, level = rival.name.partition(":")
        graph = typed(text)
        with Verifier(graph, worker=worker) as verifier:
            options = {f"{name}.level": level} if level else {}
            step = optimize(graph, [name], verifier=verifier, verify="end", options=options)[1]
        failed = getattr(step.facts, "failed", "")
        if failed and (name, failed) not in reported:
            reported.add((name, failed))
            yield rival.name, failed, "-"
        elif step.verdict is not None and step.verdict.ok is False:
            wrong_rewrite = "-" if step.broken_by is None else step.rewrites[step.broken_by].sentence
            yield rival.name, step.verdict.sentence, wrong_rewrite


if __name__ == "__main__":
    main()
