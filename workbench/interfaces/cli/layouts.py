"""The command `layouts`: runs every layout strategy on one model and compares the results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.formats.io.dims import parse_dims
from workbench.interfaces.cli.arguments import (
    input_arguments,
    load_chosen,
    model_arguments,
    target_argument,
    verifier_of,
)
from workbench.interfaces.cli.exit_codes import DONE, FAILED, UNVERIFIED
from workbench.interfaces.cli.printing import cells_of, print_table, say, warn
from workbench.ir import Graph
from workbench.run.verdict_words import relative_error_text, verdict_label

HELP = "run every layout strategy and compare them"
EXAMPLES = ("model.onnx --target npu",)
DETAILS = """
The table says of each strategy how many of the layouts that the target requires it meets, which Transposes are left,
what they move, and whether the result is equal. Where a bound is proven, no choice of its class moves less.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    target_argument(command)
    input_arguments(command)
    command.add_argument("--no-verify", action="store_true", help="do not compare with the original")
    command.add_argument("--measure", action="store_true", help="also measure the latency of each result")
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to measure (default: cpu)")
    command.add_argument("--json", action="store_true", help="print JSON")


def run(chosen: argparse.Namespace) -> int:
    request = LayoutsRequest(
        model=chosen.model or chosen.torch,
        target=chosen.target,
        inputs=chosen.inputs,
        seed=chosen.seed,
        given=parse_dims(chosen.dims),
        verify=not chosen.no_verify,
        measure=chosen.measure,
        device=chosen.device,
        as_json=chosen.json,
    )
    graph = load_chosen(chosen)
    code = layouts_command(graph, request)
    warn(graph.warnings)
    return code


@dataclass(frozen=True)
class LayoutsRequest:
    """The arguments of `layouts`. model: the file or torch program. given: dims that the user bound."""

    model: str
    target: str
    inputs: str | None
    seed: int
    given: Collection[str]
    verify: bool
    measure: bool
    device: str
    as_json: bool


_TIMED = ("median ms", "ratio")


def layouts_command(graph: Graph, request: LayoutsRequest) -> int:
    """Run, compare and print. FAILED if one result is wrong or was not measured; UNVERIFIED if one was not compared."""
    from workbench.interfaces.api import layouts
    from workbench.pipeline.registry.pass_registry import library
    from workbench.run.measurement.formatting import figures
    from workbench.run.measurement.measure import measure_models

    with verifier_of(graph, request.inputs, request.seed, request.given, patient=True) as verifier:
        result = layouts(graph, target=request.target, verifier=verifier if request.verify else None)
        rows = {name: laid_out.row() for name, laid_out in result.items()}
        if request.measure:
            graphs = {name: laid_out.history.graph for name, laid_out in result.items()}
            measured = measure_models(
                graphs, inputs=verifier.inputs, reference=verifier.reference, device=request.device
            )
            for name, variant in measured.variants.items():
                row = figures(variant)
                rows[name] |= {key: row[key] for key in ("median_ms", "ratio", "ratio_busy", "failed")}
            for note in measured.notes:
                say(f"note: {note}", file=sys.stderr)
    broken = library.broken().items()
    warn([f"pass '{name}' is missing, since its file cannot be imported: {fault}" for name, fault in broken])
    if request.as_json:
        print(json.dumps({"model": request.model, "target": request.target, "strategies": rows}, indent=1))
    else:
        header = (
            "strategy",
            "required layouts met",
            "transposes",
            "elements moved",
            "bytes moved",
            "bound (bytes)",
            "seconds",
            "max error",
            "verdict",
        )
        timed = _TIMED if request.measure else ()
        table = [(*header, *timed), *(_layout_row(name, row) for name, row in rows.items())]
        print_table(table, left=(0, 8))
        for name, row in rows.items():
            if row["lower_bound"] is not None:
                say(f"{name}: {row['proof']}")
            if row.get("failed"):
                say(f"{name}: {row['failed']}")
    verdicts = {row["verified"] for row in rows.values()} if request.verify else set()
    any_failed = any(row.get("failed") for row in rows.values())
    return FAILED if any_failed or False in verdicts else UNVERIFIED if None in verdicts else DONE


def _layout_row(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    bound = "-" if row["lower_bound"] is None else f"{row['lower_bound']:,}{' proven' if row['certified'] else ''}"
    cells = (
        name,
        f"{row['required_layouts_met']:,} of {row['required_layouts']:,}",
        f"{row['transposes']:,}",
        f"{row['elements_moved']:,}",
        f"{row['bytes_moved']:,}",
        bound,
        "-" if row["seconds"] is None else f"{row['seconds']:.2f}",
        relative_error_text(row["max_rel_error"]),
        verdict_label(row["verified"]),
    )
    return (*cells, *cells_of(row, _TIMED)) if "median_ms" in row else cells
