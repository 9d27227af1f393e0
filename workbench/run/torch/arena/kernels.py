"""An operator as calls of torch that write into its place in the arena."""

from __future__ import annotations

import operator as python_operator
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.run.torch.arena.out_kernels import (
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

if TYPE_CHECKING:
    import torch

_MOST_CALLS = 24  # of an operator that are bound one by one; more are run by its own function
_ROUNDS = 4
_Bound = Callable[[dict[str, Any]], Any]  # a call, given the results of earlier ones


@dataclass(frozen=True)
class _Temporary:
    """The result of an earlier call, by its name in the traced graph."""

    name: str


def writing_calls(compute: Callable[..., Any], operands: Sequence[Any], place: torch.Tensor) -> Write | None:
    """What computes an operator of one result into `place`, by torch's kernels alone; None if its own function has to
    run and its result to be copied.

    operands: at their fixed addresses; `place` may be the memory of one of them. The contents of `place` are kept.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    tensors = [value for value in operands if isinstance(value, torch.Tensor)]

    def run(*values: Any) -> Any:
        given = iter(values)
        filled = [next(given) if isinstance(value, torch.Tensor) else value for value in operands]
        results = compute(*filled)
        return results[0] if isinstance(results, tuple) else results

    held = place.clone()
    try:
        traced = make_fx(run)(*tensors)
        traced.graph.eliminate_dead_code()
        expected = run(*tensors).clone()
        write = _Binding(traced, tensors, place).write()
        if write is None:
            return None
        write()
        same = _is_close(place, expected)
    except Exception:  # what an operator's kernels refuse is computed by its own function
        return None
    finally:
        place.copy_(held)
    return write if same else None


def _is_close(result: torch.Tensor, expected: torch.Tensor) -> bool:
    import torch

    if not result.is_floating_point():
        return bool(torch.equal(result, expected))
    step = torch.finfo(result.dtype).eps
    return bool(torch.allclose(result, expected, rtol=max(1e-4, step), atol=max(1e-5, step / 8), equal_nan=True))


class _Binding:
    """The calls of a traced operator with their arguments bound: `known` has what is fixed, by name."""

    def __init__(self, traced: Any, tensors: Sequence[torch.Tensor], place: torch.Tensor) -> None:
        self.place = place
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
            elif all(one.name in constant for one in node.all_input_nodes) or (
                is_aten_view(node.target) and all(one.name in self.known for one in node.all_input_nodes)
            ):
                self.known[node.name] = node.target(*self._filled(node.args), **self._filled(node.kwargs))
                constant.update([node.name] if all(one.name in constant for one in node.all_input_nodes) else [])
            else:
                self.calls.append(node)

    def write(self) -> Write | None:
        """All calls, the last into the place; None if one has no kernel for that."""
        if self.result.name in self.known:
            return self._copy(self.known[self.result.name])
        last, which, place = self._last()
        if last is None or self.calls[-1] is not last or len(self.calls) > _MOST_CALLS:
            return None
        if self._reads_place(last) and not is_pointwise(last.target) and not is_copy(last.target):
            return None
        before = []
        for number, node in enumerate(self.calls[:-1]):
            inside = self._may_lie_in_place(number)
            call = self._call(node, self.place if inside else None)
            if call is None:
                return None
            before.append(call)
            self.known[node.name] = self.place if inside else _Temporary(node.name)
        if _is_convolution(last) and not before:
            return self._convolution(last, place)
        final = self._call(last, place, which)
        return None if final is None else _one_after_the_other(before, final)

    def _last(self) -> tuple[Any, int, torch.Tensor]:
        """The call whose result, of several that of this number, is the operator's, maybe reshaped; and its place."""
        node, which = self.result, 0
        while node in self.calls and (is_reshape(node.target) or node.target is python_operator.getitem):
            if node.target is python_operator.getitem:
                which = node.args[1]
            self.calls.remove(node)
            node = node.args[0]
        held = node.meta.get("val") if node in self.calls else None
        value = held[which] if isinstance(held, (tuple, list)) else held
        if value is None or not value.is_contiguous():
            return None, which, self.place
        return node, which, self.place.view(value.shape)

    def _copy(self, source: Any) -> Write:
        place = self.place
        return lambda: place.copy_(source)

    def _call(self, node: Any, place: torch.Tensor | None, which: int = 0) -> _Bound | None:
        """A call that writes into `place`, or makes a further temporary."""
        operator, args = with_kernel(node.target, self._filled(node.args))
        kwargs = self._filled(node.kwargs)
        if place is None:
            return lambda temporaries: temporaries.__setitem__(
                node.name, operator(*_looked_up(args, temporaries), **_looked_up(kwargs, temporaries))
            )
        if is_copy(operator):
            return lambda temporaries: place.copy_(_looked_up(args[0], temporaries))
        variant = out_variant(operator)
        if variant is None or not shapes_further_results(variant, place.is_cuda):
            return None
        writes, outs = variant.operator, variant.outs
        if len(outs) > 1:  # the other results are not read
            others = [name for number, name in enumerate(outs) if number != which]
            return lambda temporaries: writes(
                *_looked_up(args, temporaries),
                **kwargs,
                **{outs[which]: place},
                **{name: _empty(node, outs.index(name), place) for name in others},
            )
        kwargs = {**kwargs, outs[0]: place}
        if any(isinstance(value, _Temporary) for value in _flat((*args, *kwargs.values()))):
            return lambda temporaries: writes(*_looked_up(args, temporaries), **_looked_up(kwargs, temporaries))
        return lambda temporaries: writes(*args, **kwargs)

    def _may_lie_in_place(self, number: int) -> bool:
        """Whether an intermediate result may be written into the place: only the next call reads it, element by
        element, and no later call reads memory of the place."""
        node, following = self.calls[number], self.calls[number + 1]
        value, place = node.meta.get("val"), self.place
        if not hasattr(value, "shape") or value.shape != place.shape or value.dtype != place.dtype:
            return False
        variant = out_variant(with_kernel(node.target, ())[0])
        if list(node.users) != [following] or not is_pointwise(following.target) or variant is None:
            return False
        if len(variant.outs) > 1 or any(self._reads_place(later) for later in self.calls[number + 1 :]):
            return False
        return is_pointwise(node.target) or not self._reads_place(node)

    def _reads_place(self, node: Any) -> bool:
        """Whether a call reads memory of the place, as far as its operands are known."""
        begin, end = self.place.data_ptr(), self.place.data_ptr() + self.place.nbytes
        for operand in node.all_input_nodes:
            value = self.known.get(operand.name)
            if value is None or value is self.place or not hasattr(value, "data_ptr"):
                continue
            first = value.data_ptr()
            if value.nbytes and first < end and begin < first + value.nbytes:
                return True
        return False

    def _convolution(self, node: Any, place: torch.Tensor) -> Write | None:
        """As a matrix product, if that is not slower than by its own function with a copy."""
        args = self._filled(node.args)
        product = convolution_as_product(args, place)
        if product is None:
            return None

        def copied() -> None:
            place.copy_(node.target(*args))

        return product if _least_s(product, place) <= _least_s(copied, place) else None

    def _filled(self, given: Any) -> Any:
        """Arguments with the nodes of the traced graph replaced by what is known of them."""
        import torch

        return torch.fx.map_arg(given, lambda node: self.known[node.name])


def _one_after_the_other(before: Sequence[_Bound], last: _Bound) -> Write:
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


def _empty(node: Any, which: int, like: torch.Tensor) -> torch.Tensor:
    """Room for a further result of a call."""
    import torch

    return torch.empty(0, dtype=node.meta["val"][which].dtype, device=like.device)


def _least_s(run: Write, place: torch.Tensor) -> float:
    """The seconds of the fastest of a few runs."""
    import torch

    times = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        run()
        if place.is_cuda:
            torch.cuda.synchronize(place.device)
        times.append(time.perf_counter() - begun)
    return min(times)


def _flat(values: Any) -> list[Any]:
    results = []
    for value in values:
        results += _flat(value) if isinstance(value, (list, tuple)) else [value]
    return results


def _looked_up(given: Any, temporaries: Mapping[str, Any]) -> Any:
    if isinstance(given, _Temporary):
        return temporaries[given.name]
    if isinstance(given, dict):
        return {name: _looked_up(value, temporaries) for name, value in given.items()}
    if isinstance(given, (list, tuple)):
        return type(given)(_looked_up(value, temporaries) for value in given)
    return given
