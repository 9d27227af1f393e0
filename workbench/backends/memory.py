"""The memory that a run needs, and the memory available."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psutil

from workbench.errors import UserError
from workbench.ir import Graph, TensorType, ValueType, constant_type

CGROUP = Path("/sys/fs/cgroup")  # limits of a container, version 2
VMSTAT = Path("/proc/vmstat")  # counters of the system since its start (proc(5))
MEMORY_RESERVE = 200 * 2**20  # bytes taken by the libraries themselves


class DoesNotFitError(UserError):
    """The run would need more memory than is free."""


def in_gigabytes(count: int) -> str:
    """Bytes as text: "1.2 GB"."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def available_bytes() -> int:
    """Bytes that a new process may take, of the machine or of the container."""
    free: int = psutil.virtual_memory().available
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
    except (OSError, ValueError):  # no container, or one without limits
        return free
    return free if limit == "max" else min(free, max(0, int(limit) - used))


def in_bytes(gigabytes: float | None) -> int | None:
    return None if gigabytes is None else round(gigabytes * 1e9)


def memory_kills() -> int:
    """The number of processes that this system has killed for memory; 0 if unknown."""
    try:
        lines = VMSTAT.read_text().splitlines()
    except OSError:  # not Linux
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def weight_bytes(graph: Graph) -> int:
    """Bytes of all constants, bodies included."""
    in_graph = sum(constant_type(tensor).bytes or 0 for tensor in graph.constants.values())
    return in_graph + sum(weight_bytes(body) for node in graph.nodes for body in node.bodies.values())


def peak_activation_bytes(graph: Graph, types: Mapping[str, TensorType]) -> int:
    """The largest number of bytes of inputs and computed values that are live at one time.

    Each value is live from its producer to its last user, in the graph's order.
    Values of unknown size count as 0, so this is a lower bound.
    """
    sizes = {value: type_.bytes or 0 for value, type_ in types.items()}
    last_use = {value: step for step, node in enumerate(graph.nodes) for value in node.operands}
    last_use |= dict.fromkeys(graph.outputs, len(graph))
    last_used_at: dict[int, list[str]] = {}
    for value, step in last_use.items():
        last_used_at.setdefault(step, []).append(value)
    live = peak = sum(sizes.get(value, 0) for value in graph.inputs)
    for step, node in enumerate(graph.nodes):
        live += sum(sizes.get(value, 0) for value in node.outputs)
        peak = max(peak, live)
        live -= sum(sizes.get(value, 0) for value in last_used_at.get(step, ()) if value not in graph.constants)
        live -= sum(sizes.get(value, 0) for value in node.outputs if value and value not in last_use)
    return peak


def estimate_bytes(graph: Graph, dims: Mapping[str, int]) -> int:
    """A lower bound on the bytes of one run: weights, and the peak of the activations."""
    from workbench.analysis.inference.shapes import infer_types

    results: Mapping[str, ValueType] = {**graph.types, **graph.bound_types}
    computed = (value for node in graph.nodes for value in node.outputs if value)
    if dict(dims) != graph.dims or not all(_has_size(results.get(value)) for value in computed):
        results = infer_types(graph, dims)
    types = {value: t for value, t in results.items() if isinstance(t, TensorType)}
    return weight_bytes(graph) + peak_activation_bytes(graph, types)


def _has_size(type_: ValueType | None) -> bool:
    return isinstance(type_, TensorType) and type_.bytes is not None


def refuse_unless_fits(need: int, what: str) -> None:
    """Raises DoesNotFitError if `need` bytes are more than available."""
    free = available_bytes()
    if need + MEMORY_RESERVE > free:
        raise DoesNotFitError(
            f"Running {what} needs about {in_gigabytes(need)} of memory, and {in_gigabytes(free)} are free; "
            "bind its dimensions to smaller numbers, or close other programs."
        )
