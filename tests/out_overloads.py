"""Every overload of torch that writes into a given tensor, as the arena calls it, against the call that returns one.

A program of its own, since a kernel that writes beyond its result ends the process:

    python -m tests.out_overloads cpu

prints a line for each overload that an operator of ONNX's own cases reaches: how many calls were equal, how
many were left to the operator's own function, and how many were wrong.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter, defaultdict
from typing import Any

import onnx
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from tests.conformance import array, cases
from workbench.backends.torch.arena.kernels import writing_calls
from workbench.backends.torch.arena.out_kernels import out_variant, with_kernel
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.errors import UserError
from workbench.formats.io.onnx_file import load_proto

EQUAL, LEFT, WRONG = "equal", "left", "wrong"
_POISON = 0xFF
_MOST = 12  # calls of one overload


class Calls(TorchDispatchMode):
    """Collects the calls that have such an overload, with copies of their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Any, list[Any], Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves, form = tree_flatten((tuple(args), kwargs or {}))
        is_plain = not func._schema.is_mutable and out_variant(with_kernel(func, ())[0]) is not None
        if is_plain:
            self.found.append((func, [v.clone() if isinstance(v, torch.Tensor) else v for v in leaves], form))
        return func(*args, **kwargs or {})


def checked(func: Any, leaves: list[Any], form: Any) -> str:
    """What becomes of one call, its first result written into a place full of NaN."""

    def compute(*values: Any) -> Any:
        given = iter(values)
        args, kwargs = tree_unflatten([next(given) if isinstance(v, torch.Tensor) else v for v in leaves], form)
        results = func(*args, **kwargs)
        return results[0] if isinstance(results, (tuple, list)) else results

    tensors = [value for value in leaves if isinstance(value, torch.Tensor)]
    expected = compute(*tensors)
    if not isinstance(expected, torch.Tensor) or not expected.numel():
        return LEFT
    store = torch.full((expected.nbytes,), _POISON, dtype=torch.uint8, device=expected.device)
    place = store.view(expected.dtype).view(expected.shape)
    write = writing_calls(compute, tensors, place)
    if write is None:
        return LEFT
    store.fill_(_POISON)
    write()
    return EQUAL if _is_equal(place, expected) else WRONG


def _is_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """To the last bit, but for what is summed: matmul takes another path into a given tensor for some shapes."""
    if not (one.is_floating_point() or one.is_complex()):
        return torch.equal(one, other)
    step = torch.finfo(one.dtype).eps
    return torch.allclose(one, other, step, step, equal_nan=True)


def verdicts(device: str) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases().values():
        try:
            graph = load_proto(onnx.ModelProto.FromString(case.model.SerializeToString()))
            executor = TorchExecutor(graph, device=device)
            tensors = executor.upload(dict(zip(graph.inputs, map(array, case.data_sets[0][0]), strict=True)))
            with Calls() as calls:
                executor.run_tensors(tensors)
        except UserError:
            continue
        with torch.inference_mode():
            for func, leaves, form in calls.found:
                if found[str(func)].total() < _MOST:
                    found[str(func)][checked(func, leaves, form)] += 1
    if device != "cpu":
        torch.cuda.synchronize()
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for overload, counts in sorted(verdicts(sys.argv[1]).items()):
        print(overload, *(counts[kind] for kind in (EQUAL, LEFT, WRONG)))
