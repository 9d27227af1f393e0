"""Groups as torch's operators that write into operands without later users, for groups that no compiler compiles.

Source: torch/fx/passes/reinplace.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from workbench.backends.torch.executor.program import Program
from workbench.backends.torch.fused.lowering import Lowering, NoLowering
from workbench.backends.torch.fused.tracing import trace_group


def in_place_calls(body: Program, operands: Sequence[Any], instead_of: str) -> Lowering:
    """The group as in-place calls, for these operands' shapes, strides and types. Raises NoLowering.

    No call writes into an operand or constant of the group, or into a value that is read later or returned.
    instead_of: why the group is not compiled.
    """
    from torch._ops import OpOverload
    from torch.fx.passes.reinplace import reinplace

    start = time.perf_counter()
    traced = trace_group(body, operands)
    module, constants = _constants_as_inputs(traced.module)
    try:
        module = reinplace(module, *traced.tensors, *constants)
        module(*traced.tensors, *constants)
    except Exception as error:  # kernels may raise any exception
        raise NoLowering(f"{instead_of}; in place it cannot be run: {error}") from error
    calls = [node.target for node in module.graph.nodes if isinstance(node.target, OpOverload)]
    count = sum(call._schema.is_mutable for call in calls)
    if not count:
        raise NoLowering(f"{instead_of}; no operator can write into its operand")
    return Lowering(
        "in place",
        f"{count} of {len(calls)} calls write{'s' if count == 1 else ''} into {'its' if count == 1 else 'their'} "
        f"operand: {instead_of}",
        _with_constants(module, constants),
        traced.positions,
        compile_s=time.perf_counter() - start,
        source=module.code,
    )


def _with_constants(module: Callable[..., Any], constants: Sequence[Any]) -> Callable[..., Any]:
    return lambda call, *values: tuple(module(*values, *constants))


def _constants_as_inputs(module: Any) -> tuple[Any, list[Any]]:
    """The module with its constants as inputs, into which `reinplace` does not write; and the constants."""
    import torch

    constants: list[Any] = []
    for node in [node for node in module.graph.nodes if node.op == "get_attr"]:
        with module.graph.inserting_before(node):
            placeholder = module.graph.placeholder(f"constant_{len(constants)}")
        constants.append(getattr(module, node.target))
        node.replace_all_uses_with(placeholder)
        module.graph.erase_node(node)
    return torch.fx.GraphModule(torch.nn.Module(), module.graph), constants
