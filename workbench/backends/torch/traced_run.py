"""A run traced into one graph of torch's operators, for fixed shapes (torch.fx's make_fx)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from workbench.backends.torch.executor.executor import TorchExecutor


@dataclass(frozen=True)
class TracedRun:
    """A traced run.

    module:   takes `operands`, the tensors among the inputs, and returns the outputs.
    inputs:   the names of the operands.
    outputs:  the names of the outputs.
    """

    module: torch.fx.GraphModule
    inputs: tuple[str, ...]
    operands: tuple[torch.Tensor, ...]
    outputs: tuple[str, ...]


def trace_run(executor: TorchExecutor, tensors: Mapping[str, Any]) -> TracedRun:
    """The executor's run on these inputs; weights are parameters of the module.

    An operator that reads elements of computed values may raise any exception.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    names = tuple(name for name, value in tensors.items() if isinstance(value, torch.Tensor))
    others = {name: value for name, value in tensors.items() if name not in names}
    outputs: list[str] = []

    def traced(*values: Any) -> tuple[Any, ...]:
        results = executor.run_tensors({**others, **dict(zip(names, values, strict=True))})
        outputs[:] = results
        return tuple(results.values())

    operands = tuple(tensors[name] for name in names)
    module = _with_parameters(make_fx(traced)(*operands))
    return TracedRun(module, names, operands, tuple(outputs))


def _with_parameters(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The module with its constants as parameters, which the compiler folds and prepacks when it freezes them."""
    import torch

    constants = {name: value for name, value in vars(module).items() if isinstance(value, torch.Tensor)}
    constants |= dict(module.named_buffers(recurse=False))
    for name, value in constants.items():
        delattr(module, name)
        module.register_parameter(name, torch.nn.Parameter(value, requires_grad=False))
    return module.eval()
