"""The results of `on_gpu.py` as data: for each folder of them a section with its tables."""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.shared.benchmark import Benchmark, Content, Item, option, table
from workbench.run.records.published import PublishedMeasurement, PublishedTable

Rows = Sequence[Mapping[str, Any]]
FOLDERS = Path(__file__).resolve().parents[1] / "gpu_results"
BEST = table("network", "batch", "type", "plain torch", "ms", "ours", "ms", "of plain torch", "failed")
ALL = table("network", "batch", "type", "whose", "how", "median ms", "min ms", "p90 ms", "opening s")
PROFILER = table(
    *("network", "recorded ms", "operators ms", "kernels by the profiler ms", "compared", "largest difference")
)
ONEFLOW = table("batch", "strategy", "median ms", "of NCHW")
MEASURED = table("network", "variant", "median ms", "p90 ms", "operators ms", "peak MB", "workspaces MB")


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    for folder in chosen.folders or folders():
        measurement = gpu_measurement(folder)
        yield from measurement.content
        yield measurement.origin


def folders() -> list[Path]:
    """Those of `gpu_results`, the newest first."""
    return sorted(FOLDERS.iterdir(), reverse=True)


def gpu_measurement(folder: Path) -> PublishedMeasurement:
    """One folder of results, called DATE-CARD, after the text of its `about.md` if there is one."""
    parts = {path.stem: _rows(path) for path in sorted(folder.glob("*.jsonl"))}
    about = folder / "about.md"
    content: Content = [f"### {folder.name}", *(_paragraphs(about) if about.exists() else [])]
    for part, write in _WRITERS.items():
        content += write(parts[part]) if parts.get(part) else []
    (environment,) = parts["environment"][:1]
    driver = f", driver {environment['driver']}" if environment.get("driver") else ""
    machine = f"{environment['device_name']}, {environment['threads']} threads{driver}"
    return PublishedMeasurement(folder.name[: len("2026-11-26")], machine, environment["versions"], tuple(content))


def _paragraphs(file: Path) -> list[str]:
    """Each in one line."""
    return [" ".join(text.split()) for text in re.split(r"\n\s*\n", file.read_text(encoding="utf-8").strip())]


def _rows(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _tests(rows: Rows) -> Content:
    rows = list({row["test"]: row for row in rows}.values())  # of several starts the last
    counts = Counter(row["outcome"] for row in rows)
    failed = [row["test"] for row in rows if row["outcome"] in ("failed", "error")]
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common())
    return [f"Tests: {outcomes}.{' Failed: ' + ', '.join(failed) + '.' if failed else ''}"]


def _conformance(rows: Rows) -> Content:
    counts = Counter(row["kind"] for row in rows)
    wrong = [f"{row['case']} ({row['reason']})" for row in rows if row["kind"] == "wrong"]
    outcomes = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    count = sum(row.get("captured", False) for row in rows)
    outcomes += f"; {count:,} also as a CUDA graph" if count else ""
    return [f"ONNX's {len(rows):,} cases: {outcomes}.{' Wrong: ' + '; '.join(wrong) + '.' if wrong else ''}"]


def _networks(rows: Rows) -> Content:
    """The fastest of plain torch and the fastest of our backends on each network; then all of them."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    keys = ("network", "batch", "dtype", "who", "how")
    rows = list({tuple(row[key] for key in keys): row for row in rows}.values())  # of several starts the last
    for row in rows:
        groups.setdefault((row["network"], row["batch"], row["dtype"]), []).append(row)
    cells = []
    for key, group in groups.items():
        ran = [row for row in group if "median_ms" in row]
        best = {who: min((r for r in ran if r["who"] == who), key=_median, default=None) for who in ("torch", "ours")}
        torch, ours = best["torch"], best["ours"]
        ratio = f"{ours['median_ms'] / torch['median_ms']:.2f}" if torch and ours else "-"
        failed = "; ".join(f"{r['who']} {r['how']}" for r in group if "failed" in r)
        cells.append([*key, *_best(torch), *_best(ours), ratio, failed or "-"])
    all_cells = [
        [row["network"], row["batch"], row["dtype"], row["who"], row["how"], *_times(row), _opening(row)]
        for row in rows
        if "median_ms" in row
    ]
    return [
        *("The fastest of plain torch and of ours:", _table(BEST, cells)),
        *("All of them:", _table(ALL, all_cells)),
    ]


def _median(row: Mapping[str, Any]) -> float:
    return float(row["median_ms"])


def _best(row: Mapping[str, Any] | None) -> tuple[str, str]:
    return ("-", "-") if row is None else (row["how"], f"{row['median_ms']:.3f}")


def _times(row: Mapping[str, Any]) -> list[str]:
    return [f"{row[name]:.3f}" if name in row else "-" for name in ("median_ms", "min_ms", "p90_ms")]


def _opening(row: Mapping[str, Any]) -> str:
    return f"{row['opening_s']:.1f}" if "opening_s" in row else "-"


def _profiler(rows: Rows) -> Content:
    names = ("recorded_ms", "operators_ms", "profiler_ms")
    cells = [
        [
            row["network"],
            *(f"{row[name]:.3f}" for name in names),
            row["compared"],
            "; ".join(f"{name} {share:.0%}" for share, name in reversed(row["differences"])) or "-",
        ]
        for row in rows
    ]
    title = "Operators' times beside the recorded run and the profiler; those above 20 us are compared one by one:"
    return [title, _table(PROFILER, cells)]


def _oneflow(rows: Rows) -> Content:
    cells = [
        [row["batch"], row["strategy"], f"{row['median_ms']:.2f}", f"{row['ratio']:.2f}"]
        if "median_ms" in row
        else [row["batch"], row["strategy"], "-", row["failed"]]
        for row in rows
    ]
    return ["ResNet-101 in mixed precision:", _table(ONEFLOW, cells)]


def _measured(rows: Rows) -> PublishedTable:
    cells = [
        [
            row["network"],
            row["variant"],
            f"{row['median_ms']:.3f}",
            f"{row['p90_ms']:.3f}",
            f"{row['operators_ms']:.3f}" if "operators_ms" in row else "-",
            f"{row['peak_bytes'] / 1e6:,.1f}",
            f"{row['workspaces_bytes'] / 1e6:,.1f}" if row.get("workspaces_bytes") is not None else "-",
        ]
        for row in rows
        if "median_ms" in row
    ]
    return _table(MEASURED, cells)


def _table(head: PublishedTable, cells: Iterable[Sequence[Any]]) -> PublishedTable:
    return replace(head, rows=tuple(tuple(map(str, row)) for row in cells))


_WRITERS: Mapping[str, Callable[[Rows], Content]] = {
    "tests": _tests,
    "conformance": _conformance,
    "networks": _networks,
    "profiler": _profiler,
    "oneflow": _oneflow,
    "streams": lambda rows: ["Operators side by side:", _measured(rows)],
    "memory": lambda rows: ["Memory:", _measured(rows)],
    "fusions": lambda rows: ["Fused in transformers, [4096, 4096]:", _measured(rows)],
}


BENCHMARK = Benchmark(
    measure,
    (BEST, ALL, PROFILER, ONEFLOW, MEASURED),
    (option("folders", nargs="*", type=Path, help="of results (default: those of benchmarks/gpu_results)"),),
    measurements=lambda: [gpu_measurement(folder) for folder in folders()],
)
