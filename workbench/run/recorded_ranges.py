"""The least and the largest element of values in one run, as ONNX Runtime's calibration with MinMax records them."""

from __future__ import annotations

from collections.abc import Collection

from workbench.backends.profiling.progress import ProgressCallback
from workbench.ir import Graph, TensorType
from workbench.planning.precision.element_types import WIDE
from workbench.planning.precision.int8.quantizer_rounding import Ranges
from workbench.planning.precision.rounding import NewNodes
from workbench.run.inputs import Tensors
from workbench.run.running_in_parts import run_in_parts
from workbench.run.worker.client import Worker

_PREFIX = "workbench_range"


def recorded_ranges(
    graph: Graph, values: Collection[str], inputs: Tensors, worker: Worker, need_bytes: int, report: ProgressCallback
) -> Ranges:
    """The ranges of these float values, which the run does not keep; arguments as in `run_in_parts`."""
    if not values:
        return {}
    wanted, new = set(values), NewNodes(_PREFIX)
    ends: dict[str, tuple[str, str]] = {}

    def measure(value: str) -> None:
        if value in wanted and value not in ends:
            ends[value] = new.add("ReduceMin", value, keepdims=0), new.add("ReduceMax", value, keepdims=0)

    for node in graph.nodes:
        for value in node.inputs:
            measure(value)
        new.nodes.append(node)
        for value in node.outputs:
            measure(value)
    scalars = [name for pair in ends.values() for name in pair]
    types = {**graph.types, **dict.fromkeys(scalars, TensorType(WIDE, ()))}
    measured = Graph(**graph.constructor_arguments | {"nodes": new.nodes, "outputs": scalars, "types": types})
    found = run_in_parts(measured, inputs, worker, need_bytes, "recording the ranges of values", report)
    return {value: (float(found[least]), float(found[largest])) for value, (least, largest) in ends.items()}
