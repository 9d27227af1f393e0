"""Computes an operator by calls of torch that write into its result in the arena."""

from __future__ import annotations

import operator as python_operator
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.backends.torch.arena.out_kernels import (
    Write,
    convolution_as_product,
    is_aten_view,
    is_copy,
    is_pointwise,
    is_reshape,
    out_variant,
    shapes_further_results,
    with_kernel,
)
from workbench.backends.torch.executor.device_times import kernel_times_ms

if TYPE_CHECKING:
    import torch

_MAX_CALLS = 24  # bound one by one; an operator of more calls is run by its own function
_ROUNDS = 4
_Bound = Callable[[dict[str, Any]], Any]  # a call, given the results of earlier ones


@dataclass(frozen=True)
class _Temporary:
    """The result of an earlier call, by its name in the traced graph."""

    name: str


def writing_calls(compute: Callable[..., Any], operands: Sequence[Any], target: torch.Tensor) -> Write | None:
    """A function that computes an operator of one result into `target` by torch's kernels; None if there is none.

    operands: at their fixed addresses; `target` may be the memory of one of them. The contents of `target` are kept.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    tensors = [value for value in operands if isinstance(value, torch.Tensor)]

    def run(*values: Any) -> Any:
        arguments = iter(values)
        operands_now = [next(arguments) if isinstance(value, torch.Tensor) else value for value in operands]
        results = compute(*operands_now)
        return results[0] if isinstance(results, tuple) else results

    saved = target.clone()
    try:
        traced = make_fx(run)(*tensors)
        traced.graph.eliminate_dead_code()
        expected = run(*tensors).clone()
        write = _Binding(traced, tensors, target).write()
        if write is None:
            return None
        write()
        is_same = _is_close(target, expected)
    except Exception:  # kernels may raise any exception; the operator's own function is used then
        return None
    finally:
        target.copy_(saved)
    return write if is_same else None


def _is_close(result: torch.Tensor, expected: torch.Tensor) -> bool:
    import torch

    if not result.is_floating_point():
        return bool(torch.equal(result, expected))
    step = torch.finfo(result.dtype).eps
    return bool(torch.allclose(result, expected, rtol=max(1e-4, step), atol=max(1e-5, step / 8), equal_nan=True))


class _Binding:
    """The calls of a traced operator with their arguments bound. known: fixed values, by the name of the fx node."""

    def __init__(self, traced: Any, tensors: Sequence[torch.Tensor], target: torch.Tensor) -> None:
        self.target = target
        self.known: dict[str, Any] = {}
        self.calls: list[Any] = []
        inputs = iter(tensors)
        constant: set[str] = set()
        *nodes, end = traced.graph.nodes
        self.result = end.args[0]
        for node in nodes:
            if node.op == "placeholder":
                self.known[node.name] = next(inputs)
            elif node.op == "get_attr":
                self.known[node.name] = getattr(traced, node.target)
                constant.add(node.name)
            elif all(node_read.name in constant for node_read in node.all_input_nodes) or (
                is_aten_view(node.target) and all(node_read.name in self.known for node_read in node.all_input_nodes)
            ):
                self.known[node.name] = node.target(*self._with_known(node.args), **self._with_known(node.kwargs))
                constant.update(
                    [node.name] if all(node_read.name in constant for node_read in node.all_input_nodes) else []
                )
            else:
                self.calls.append(node)

    def write(self) -> Write | None:
        """A function of all calls, the last of which writes into the target; None if a call has no such kernel."""
        if self.result.name in self.known:
            return self._copy(self.known[self.result.name])
        last, result_index, target = self._last_call()
        if last is None or self.calls[-1] is not last or len(self.calls) > _MAX_CALLS:
            return None
        if self._reads_target(last) and not is_pointwise(last.target) and not is_copy(last.target):
            return None
        before = []
        for number, node in enumerate(self.calls[:-1]):
            inside = self._may_use_target(number)
            call = self._call(node, self.target if inside else None)
            if call is None:
                return None
            before.append(call)
            self.known[node.name] = self.target if inside else _Temporary(node.name)
        if _is_convolution(last) and not before:
            return self._convolution(last, target)
        final = self._call(last, target, result_index)
        return None if final is None else _in_sequence(before, final)

    def _last_call(self) -> tuple[Any, int, torch.Tensor]:
        """The call that computes the operator's result, perhaps reshaped; the index among its results; its target."""
        node, result_index = self.result, 0
        while node in self.calls and (is_reshape(node.target) or node.target is python_operator.getitem):
            if node.target is python_operator.getitem:
                result_index = node.args[1]
            self.calls.remove(node)
            node = node.args[0]
        saved = node.meta.get("val") if node in self.calls else None
        value = saved[result_index] if isinstance(saved, (tuple, list)) else saved
        if value is None or not value.is_contiguous():
            return None, result_index, self.target
        return node, result_index, self.target.view(value.shape)

    def _copy(self, source: Any) -> Write:
        target = self.target
        return lambda: target.copy_(source)

    def _call(self, node: Any, target: torch.Tensor | None, result_index: int = 0) -> _Bound | None:
        """A call that writes into `target`, or creates a temporary if that is None."""
        operator, args = with_kernel(node.target, self._with_known(node.args))
        kwargs = self._with_known(node.kwargs)
        if target is None:
            return lambda temporaries: temporaries.__setitem__(
                node.name, operator(*_resolved(args, temporaries), **_resolved(kwargs, temporaries))
            )
        if is_copy(operator):
            return lambda temporaries: target.copy_(_resolved(args[0], temporaries))
        variant = out_variant(operator)
        if variant is None or not shapes_further_results(variant, target.is_cuda):
            return None
        writes, outs = variant.operator, variant.outs
        if len(outs) > 1:  # the other results are not read
            others = [name for number, name in enumerate(outs) if number != result_index]
            return lambda temporaries: writes(
                *_resolved(args, temporaries),
                **kwargs,
                **{outs[result_index]: target},
                **{name: _empty(node, outs.index(name), target) for name in others},
            )
        kwargs = {**kwargs, outs[0]: target}
        if any(isinstance(value, _Temporary) for value in _flat((*args, *kwargs.values()))):
            return lambda temporaries: writes(*_resolved(args, temporaries), **_resolved(kwargs, temporaries))
        return lambda temporaries: writes(*args, **kwargs)

    def _may_use_target(self, number: int) -> bool:
        """Whether an intermediate result may be written into the target.

        It may if only the next call reads it, elementwise, and no later call reads memory of the target.
        """
        node, following = self.calls[number], self.calls[number + 1]
        value, target = node.meta.get("val"), self.target
        if not hasattr(value, "shape") or value.shape != target.shape or value.dtype != target.dtype:
            return False
        variant = out_variant(with_kernel(node.target, ())[0])
        if list(node.users) != [following] or not is_pointwise(following.target) or variant is None:
            return False
        if len(variant.outs) > 1 or any(self._reads_target(later) for later in self.calls[number + 1 :]):
            return False
        return is_pointwise(node.target) or not self._reads_target(node)

    def _reads_target(self, node: Any) -> bool:
        """Whether a known operand of the call overlaps with the target."""
        begin, end = self.target.data_ptr(), self.target.data_ptr() + self.target.nbytes
        for operand in node.all_input_nodes:
            value = self.known.get(operand.name)
            if value is None or value is self.target or not hasattr(value, "data_ptr"):
                continue
            first = value.data_ptr()
            if value.nbytes and first < end and begin < first + value.nbytes:
                return True
        return False

    def _convolution(self, node: Any, target: torch.Tensor) -> Write | None:
        """The convolution as a matrix product, if that is not slower than its own function and a copy."""
        args = self._with_known(node.args)
        product = convolution_as_product(args, target)
        if product is None:
            return None

        def copied() -> None:
            target.copy_(node.target(*args))

        return product if _fastest_ms(product, target) <= _fastest_ms(copied, target) else None

    def _with_known(self, arguments: Any) -> Any:
        """Arguments with the nodes of the traced graph replaced by their known values."""
        import torch

        return torch.fx.map_arg(arguments, lambda node: self.known[node.name])


def _in_sequence(before: Sequence[_Bound], last: _Bound) -> Write:
    if not before:
        return lambda: last({})

    def write() -> None:
        temporaries: dict[str, Any] = {}
        for call in before:
            call(temporaries)
        last(temporaries)

    return write


def _is_convolution(node: Any) -> bool:
    import torch

    return node.target is torch.ops.aten.convolution.default


def _empty(node: Any, result_index: int, like: torch.Tensor) -> torch.Tensor:
    """An empty tensor for a further result of a call."""
    import torch

    return torch.empty(0, dtype=node.meta["val"][result_index].dtype, device=like.device)


def _fastest_ms(run: Write, target: torch.Tensor) -> float:
    """The milliseconds of the fastest of a few runs; on CUDA of its kernels, which are recorded later."""
    import torch

    recorded = kernel_times_ms(run, target.device) if target.is_cuda else []
    if recorded:
        return min(recorded)
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        run()
        if target.is_cuda:
            torch.cuda.synchronize(target.device)
        times.append((time.perf_counter() - start) * 1e3)
    return min(times)


def _flat(values: Any) -> list[Any]:
    results = []
    for value in values:
        results += _flat(value) if isinstance(value, (list, tuple)) else [value]
    return results


def _resolved(arguments: Any, temporaries: Mapping[str, Any]) -> Any:
    if isinstance(arguments, _Temporary):
        return temporaries[arguments.name]
    if isinstance(arguments, dict):
        return {name: _resolved(value, temporaries) for name, value in arguments.items()}
    if isinstance(arguments, (list, tuple)):
        return type(arguments)(_resolved(value, temporaries) for value in arguments)
    return arguments
