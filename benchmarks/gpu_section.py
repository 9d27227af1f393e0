"""Markdown of the results of `on_gpu.py`: `python benchmarks/gpu_section.py FOLDER ...`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[Mapping[str, Any]]


def section(folder: Path) -> str:
    """The tables of one folder of results, after the text of its `about.md` if there is one."""
    parts = {path.stem: _rows(path) for path in sorted(folder.glob("*.jsonl"))}
    about = folder / "about.md"
    texts = [about.read_text(encoding="utf-8").strip()] if about.exists() else []
    texts += [table for part, write in _WRITERS.items() if part in parts and (table := write(parts[part]))]
    return "\n\n".join(texts) + "\n"


def _rows(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _environment(rows: Rows) -> str:
    (row,) = rows[:1]
    versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
    driver = f", driver {row['driver']}" if row.get("driver") else ""
    return f"{row['device_name']}, {row['threads']} threads{driver}; {versions}."


def _tests(rows: Rows) -> str:
    counts = Counter(row["outcome"] for row in rows)
    failed = [row["test"] for row in rows if row["outcome"] in ("failed", "error")]
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common())
    return f"Tests: {outcomes}.{' Failed: ' + ', '.join(failed) + '.' if failed else ''}"


def _conformance(rows: Rows) -> str:
    counts = Counter(row["kind"] for row in rows)
    wrong = [f"{row['case']} ({row['reason']})" for row in rows if row["kind"] == "wrong"]
    outcomes = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    return f"ONNX's {len(rows):,} cases: {outcomes}.{' Wrong: ' + '; '.join(wrong) + '.' if wrong else ''}"


def _networks(rows: Rows) -> str:
    """The fastest of plain torch and the fastest of our backends on each network; then all of them."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
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
    header = ("network", "batch", "type", "plain torch", "ms", "ours", "ms", "of plain torch", "failed")
    all_cells = [
        [row["network"], row["batch"], row["dtype"], row["who"], row["how"], *_times(row), _opening(row)]
        for row in rows
        if "median_ms" in row
    ]
    return f"The fastest of plain torch and of ours:\n\n{_table(header, cells)}\n\nAll of them:\n\n" + _table(
        ("network", "batch", "type", "whose", "how", "median ms", "min ms", "p90 ms", "opening s"), all_cells
    )


def _median(row: Mapping[str, Any]) -> float:
    return float(row["median_ms"])


def _best(row: Mapping[str, Any] | None) -> tuple[str, str]:
    return ("-", "-") if row is None else (row["how"], f"{row['median_ms']:.3f}")


def _times(row: Mapping[str, Any]) -> list[str]:
    return [f"{row[name]:.3f}" if name in row else "-" for name in ("median_ms", "min_ms", "p90_ms")]


def _opening(row: Mapping[str, Any]) -> str:
    return f"{row['opening_s']:.1f}" if "opening_s" in row else "-"


def _profiler(rows: Rows) -> str:
    names = ("recorded_ms", "operators_ms", "profiler_ms")
    header = ("network", "recorded ms", "operators ms", "kernels by the profiler ms")
    cells = [[row["network"], *(f"{row[name]:.3f}" for name in names)] for row in rows]
    return f"Operators' times beside the recorded run and the profiler:\n\n{_table(header, cells)}" if rows else ""


def _oneflow(rows: Rows) -> str:
    cells = [[row["batch"], row["strategy"], f"{row['median_ms']:.2f}", f"{row['ratio']:.2f}"] for row in rows]
    return f"ResNet-101 in mixed precision:\n\n{_table(('batch', 'strategy', 'median ms', 'of NCHW'), cells)}"


def _measured(rows: Rows) -> str:
    header = ("network", "variant", "median ms", "p90 ms", "operators ms", "peak MB", "workspaces MB")
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
    return _table(header, cells)


def _table(header: Sequence[str], cells: Iterable[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *cells]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


_WRITERS: Mapping[str, Callable[[Rows], str]] = {
    "environment": _environment,
    "tests": _tests,
    "conformance": _conformance,
    "networks": _networks,
    "profiler": _profiler,
    "oneflow": _oneflow,
    "lanes": lambda rows: f"Operators side by side:\n\n{_measured(rows)}",
    "memory": lambda rows: f"Memory:\n\n{_measured(rows)}",
    "fusions": lambda rows: f"Fused in transformers, [4096, 4096]:\n\n{_measured(rows)}",
}


if __name__ == "__main__":
    print("\n".join(section(Path(folder)) for folder in sys.argv[1:]))
