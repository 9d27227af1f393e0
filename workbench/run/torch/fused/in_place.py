"""Groups as torch's operators, each writing into an operand that nothing reads afterwards: where no compiler can help.

Source: torch/fx/passes/reinplace.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from workbench.run.torch.executor.program import Program
from workbench.run.torch.fused.lowering import Lowering, NoLowering
from workbench.run.torch.fused.tracing import trace_group


def in_place_calls(body: Program, operands: Sequence[Any], instead_of: str) -> Lowering:
    """The program of a group for these operands' shapes, strides and types, in place where that is safe: never in the
    group's operands and constants, nor in a value that is read again or returned. Raises NoLowering.

    instead_of: why the group is not compiled.
    """
    from torch._ops import OpOverload
    from torch.fx.passes.reinplace import reinplace

    begun = time.perf_counter()
    traced = trace_group(body, operands)
    module, held = _constants_as_inputs(traced.module)
    try:
        module = reinplace(module, *traced.tensors, *held)
        module(*traced.tensors, *held)
    except Exception as error:  # an operator's kernel without data may raise anything
        raise NoLowering(f"{instead_of}; in place it cannot be run: {error}") from error
    calls = [node.target for node in module.graph.nodes if isinstance(node.target, OpOverload)]
    count = sum(call._schema.is_mutable for call in calls)
    if not count:
        raise NoLowering(f"{instead_of}; no operator can write into its operand")
    return Lowering(
        "in place",
        f"{count} of {len(calls)} calls write{'s' if count == 1 else ''} into {'its' if count == 1 else 'their'} "
        f"operand: {instead_of}",
        _run(module, held),
        traced.places,
        compile_s=time.perf_counter() - begun,
        source=module.code,
    )


def _run(module: Callable[..., Any], held: Sequence[Any]) -> Callable[..., Any]:
    return lambda call, *values: tuple(module(*values, *held))


def _constants_as_inputs(module: Any) -> tuple[Any, list[Any]]:
    """The module with its tensors as further inputs, which `reinplace` does not write into; and these tensors."""
    import torch

    held: list[Any] = []
    for node in [node for node in module.graph.nodes if node.op == "get_attr"]:
        with module.graph.inserting_before(node):
            given = module.graph.placeholder(f"constant_{len(held)}")
        held.append(getattr(module, node.target))
        node.replace_all_uses_with(given)
        module.graph.erase_node(node)
    return torch.fx.GraphModule(torch.nn.Module(), module.graph), held
