"""The command `memory`: lifetimes of values, which of them share memory, and one arena for all by each planner."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.errors import UserError
from workbench.interfaces.cli.arguments import (
    at_least_one,
    check_writes,
    load_chosen,
    model_arguments,
    pipeline_text,
    target_argument,
)
from workbench.interfaces.cli.exit_codes import DONE
from workbench.interfaces.cli.printing import megabytes, print_table, say, warn
from workbench.pipeline.command_text import command_text

if TYPE_CHECKING:
    from workbench.planning.memory.blocks.packing import Packing
    from workbench.planning.memory.planners import Packed
    from workbench.planning.memory.planning import MemoryPlan, Sharing

HELP = "plan the memory of all values in one arena, by every planner"
EXAMPLES = (
    "model.onnx",
    "model.onnx --planner exact --json   # where each value lies",
    "model.onnx --order lowest_peak",
    "model.onnx --certificate plan.json",
)
DETAILS = """
The MODEL may also be a file of MiniMalloc's format (.csv), of which the planners place the blocks.

- The arena holds what operators compute, results included. Inputs belong to the caller, and the next run needs the
weights.
- A value is in use from the step that makes it to the step of its last reader, both included. Nodes in the body of a
Loop are steps before the node that holds it; what the body captures or carries is in use until that node ends.
- A plan holds for its own sizes. With --range it is made for each size. An input of another size is padded to the next,
and one arena as large as the largest serves all.
- "certified" says that no arena is smaller, for this order and these values in shared memory. Where a size is not known
the table says "known sizes"; "certified_of" in the JSON says of what it is the proof.

The page Memory of the app draws a plan, time against offset, and plays it step by step.
"""
_PLANNERS = ("planner", "arena (bytes)", "lower bound (bytes)", "gap", "certified", "seconds")
_VALUES = ("value", "kind", "bytes", "offset", "born", "dies", "block", "in the memory of")
_DEFAULT = "exact"


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    command.add_argument("--passes", type=pipeline_text, default=(), metavar="a,b,c", help="passes to run before")
    target_argument(command, " for --passes")
    command.add_argument(
        "--planner", metavar="NAME", help="one planner, with the offset of each value (default: compare all)"
    )
    orders = "execution order: file (default), depth_first, breadth_first, lowest_peak (that of order_for_memory)"
    command.add_argument("--order", default="file", metavar="NAME", help=orders)
    command.add_argument(
        "--align", type=at_least_one, default=1, metavar="BYTES", help="alignment of memory (default: 1)"
    )
    help_text = "a plan for each of these sizes of a symbolic dim: S=16,64,256, or S=1..512 for powers of two"
    command.add_argument("--range", metavar="S=1..512", help=help_text)
    help_text = "time limit of the exact planner (default: 20)"
    command.add_argument("--seconds", type=at_least_one, default=20, metavar="S", help=help_text)
    command.add_argument("--json", action="store_true", help="print one plan as JSON (default: of the exact planner)")
    help_text = (
        "write the plan's certificate, which `check MODEL MODEL C.json` re-checks"
        " (original and result are the same file)"
    )
    command.add_argument("--certificate", metavar="C.json", help=help_text)
    command.add_argument("--csv", action="store_true", help="print the problem as MiniMalloc's CSV")


def run(chosen: argparse.Namespace) -> int:
    if chosen.model is not None and chosen.model.lower().endswith(".csv"):
        return _plan_csv(chosen)
    return _plan_model(chosen) if chosen.range is None else _plan_range(chosen)


def _plan_model(chosen: argparse.Namespace) -> int:
    from workbench.interfaces.api import memory_sharing
    from workbench.planning.memory.blocks.minimalloc import write_packing
    from workbench.planning.memory.planning import plan_memory

    if chosen.certificate is not None:
        _check_certifiable(chosen)
    graph = load_chosen(chosen)
    sharing = memory_sharing(graph, chosen.passes, order=chosen.order, alignment=chosen.align, target=chosen.target)
    if chosen.csv:
        print(write_packing(sharing.packing), end="")
    elif chosen.json:
        print(json.dumps(plan_memory(sharing, chosen.planner or _DEFAULT, chosen.seconds).to_json(), indent=1))
    elif chosen.planner:
        plan = plan_memory(sharing, chosen.planner, chosen.seconds)
        _print_planners([plan.packed], not sharing.unknown)
        _print_values(plan)
        _say_certified([plan.packed], sharing)
    else:
        result = _by_every_planner(sharing.packing, chosen.seconds)
        _print_planners(result, not sharing.unknown)
        _say_certified(result, sharing)
    if chosen.certificate is not None:
        from workbench.interfaces.api import certificate
        from workbench.pipeline.running import start
        from workbench.planning.layout.profile import load_profile

        plan = plan_memory(sharing, chosen.planner or _DEFAULT, chosen.seconds)
        size = certificate(
            start(graph, load_profile(chosen.target)), chosen.model, chosen.model, chosen.certificate, plan
        )
        check = command_text("check", chosen.model, chosen.model, chosen.certificate)
        say(f"wrote the plan's certificate, {megabytes(size)}; check it with: {check}", sys.stderr)
    if not (chosen.csv or chosen.json):
        _say_sharing(sharing)
        warn(graph.warnings)
    return DONE


def _check_certifiable(chosen: argparse.Namespace) -> None:
    """Raise UserError if no certificate can be written for these arguments."""
    from workbench.evidence.certification.writing import check_certifiable

    check_writes([chosen.certificate], [chosen.model])
    check_certifiable(chosen.model)
    if chosen.passes:
        raise UserError(
            "--certificate needs a plan of the file itself; leave out --passes, or plan the file that they write"
        )


def _plan_range(chosen: argparse.Namespace) -> int:
    """Print a plan for each size of a dim. The largest arena is large enough for all of them."""
    from workbench.interfaces.api import memory_sharing
    from workbench.planning.memory.buckets import parse_buckets
    from workbench.planning.memory.planning import plan_memory

    buckets = parse_buckets(chosen.range)
    dims = [part for part in chosen.dims.split(",") if part.strip() and part.partition("=")[0].strip() != buckets.dim]
    plans = {}
    for size in buckets.sizes:
        chosen.dims = ",".join([*dims, f"{buckets.dim}={size}"])
        sharing = memory_sharing(
            load_chosen(chosen), chosen.passes, order=chosen.order, alignment=chosen.align, target=chosen.target
        )
        plans[size] = plan_memory(sharing, chosen.planner or _DEFAULT, chosen.seconds)
    largest = max(plans, key=lambda size: plans[size].packed.total)
    if chosen.json:
        totals = {"dim": buckets.dim, "total_bytes": plans[largest].packed.total}
        print(json.dumps({**totals, "plans": {str(size): plan.to_json() for size, plan in plans.items()}}, indent=1))
        return DONE
    unknown = max(len(plan.sharing.unknown) for plan in plans.values())
    packed, names = [plan.packed for plan in plans.values()], [f"{buckets.dim}={size:,}" for size in plans]
    _print_planners(packed, not unknown, names)
    say(
        f"each plan is for one size, to which smaller inputs are padded; the arena of {buckets.dim}={largest:,},"
        f" {plans[largest].packed.total:,} bytes, is large enough for all"
    )
    if unknown:
        say(f"{unknown:,} values are not in the plans, since their size is not known")
    return DONE


def _plan_csv(chosen: argparse.Namespace) -> int:
    """Plan the blocks of a file in MiniMalloc's format."""
    from workbench.planning.memory.blocks.minimalloc import read_packing, write_packing
    from workbench.planning.memory.planners import pack, planner_of

    if chosen.passes or chosen.dims or chosen.torch or chosen.order != "file":
        raise UserError(f"'{chosen.model}' lists blocks of memory, not operators; leave out the arguments of a model")
    packing = read_packing(chosen.model)
    if not (chosen.planner or chosen.json or chosen.csv):
        _print_planners(_by_every_planner(packing, chosen.seconds))
        return DONE
    packed = pack(packing, planner_of(chosen.planner or _DEFAULT), chosen.seconds)
    if chosen.json:
        print(json.dumps(_csv_json(packing, packed), indent=1))
    elif chosen.csv:
        print(write_packing(packing, packed.offsets), end="")
    else:
        _print_planners([packed])
    return DONE


def _by_every_planner(packing: Packing, seconds: float) -> list[Packed]:
    from workbench.planning.memory.planners import pack, planners

    return [pack(packing, planner, seconds) for planner in planners().values()]


def _print_planners(results: Sequence[Packed], complete: bool = True, names: Sequence[str] | None = None) -> None:
    """complete: whether all sizes are known; otherwise a proof covers the known ones.
    names: one label per result, if all come from one planner.
    """
    rows = [
        (
            packed.planner if names is None else names[index],
            f"{packed.total:,}",
            f"{packed.lower_bound:,}",
            f"{packed.gap:.2%}",
            ("yes" if complete else "known sizes") if packed.certified else "no",
            f"{packed.seconds:.3f}",
        )
        for index, packed in enumerate(results)
    ]
    header = _PLANNERS if names is None else ("size", *_PLANNERS[1:])
    print_table([header, *rows], left=(0, 4))


def _say_certified(results: Sequence[Packed], sharing: Sharing) -> None:
    if any(packed.certified for packed in results):
        say(f"certified: no smaller arena exists for {sharing.certified_of}")


def _print_values(plan: MemoryPlan) -> None:
    rows = [
        (
            value.name,
            str(value.kind),
            "unknown" if value.bytes is None else f"{value.bytes:,}",
            "-" if value.offset is None else f"{value.offset:,}",
            f"{value.born:,}",
            f"{value.dies:,}",
            "-" if value.block is None else f"{value.block:,}",
            "-" if value.alias_of is None else f"{value.alias_of}, {value.how}",
        )
        for value in plan.values
    ]
    print_table([_VALUES, *rows], left=(0, 1, 7))
    for decision in plan.sharing.decisions:
        if not decision.accepted:
            say(decision.sentence)


def _say_sharing(sharing: Sharing) -> None:
    shared = [decision for decision in sharing.decisions if decision.accepted]
    counts = {how: sum(decision.how == how for decision in shared) for how in ("in place", "view", "placed")}
    bound = sharing.packing.lower_bound
    say(
        f"blocks of memory: {len(sharing.packing.blocks):,}; values that share one: {counts['in place']:,} overwrite an"
        f" operand, {counts['view']:,} are views, {counts['placed']:,} are computed inside the result of a Concat"
    )
    if sharing.unshared_bound:
        say(
            f"peak: {bound:,} bytes, {bound / sharing.unshared_bound:.3f} of the"
            f" {sharing.unshared_bound:,} without shared memory"
        )
    if sharing.unknown:
        say(
            f"{len(sharing.unknown):,} values are not in the plan, since their size is not known, the first"
            f" '{sharing.unknown[0]}'; bind dims with --dims, or optimize the model first"
        )


def _csv_json(packing: Packing, packed: Packed) -> Mapping[str, Any]:
    """The plan of a CSV file in the form of `MemoryPlan.to_json`."""
    values = [
        {
            "name": block.name,
            "kind": "activation",
            "bytes": block.bytes,
            "offset": offset,
            "born": block.born,
            "dies": block.dies,
            "alias_of": None,
        }
        for block, offset in zip(packing.blocks, packed.offsets, strict=True)
    ]
    return {
        "planner": packed.planner,
        "order": "file",
        "total_bytes": packed.total,
        "lower_bound_bytes": packed.lower_bound,
        "certified": packed.certified,
        "seconds": round(packed.seconds, 4),
        "values": values,
        "steps": [],
    }
