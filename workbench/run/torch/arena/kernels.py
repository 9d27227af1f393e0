"""An operator as calls of torch that write into its place in the arena."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.run.torch.arena.out_kernels import (
    Write,
    convolution_as_product,
    is_pointwise,
    out_variant,
    relu_as_clamp,
)

if TYPE_CHECKING:
    import torch

_MOST_CALLS = 24  # of an operator that are bound one by one; more are run by its own function
_ROUNDS = 4


@dataclass(frozen=True)
class _Temporary:
    """The result of an earlier call, by its name in the traced graph."""

    name: str


def writing_calls(compute: Callable[..., Any], operands: Sequence[Any], place: torch.Tensor) -> Write | None:
    """What computes an operator of one result into `place`, by torch's kernels alone; None if its own function has to run
    and its result to be copied.

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
        expected = run(*tensors)
        write = _bound(traced, tensors, place)
        if write is None:
            return None
        write()
        same = _is_close(place, expected)
    except Exception:  # what an operator's kernels refuse is computed by its own function
        return None
    finally:
        place.copy_(held)
    return write if same else None


def _is_close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    import torch

    if not found.is_floating_point():
        return bool(torch.equal(found, expected))
    return bool(torch.allclose(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True))


def _bound(traced: Any, tensors: Sequence[torch.Tensor], place: torch.Tensor) -> Write | None:
    """The calls with their arguments bound; the last writes into `place`."""
    import torch

    known: dict[str, Any] = {}
    calls = []
    inputs = iter(tensors)
    nodes = list(traced.graph.nodes)
    result = nodes[-1].args[0]
    for node in nodes[:-1]:
        if node.op == "placeholder":
            known[node.name] = next(inputs)
        elif node.op == "get_attr":
            known[node.name] = getattr(traced, node.target)
        elif _is_view(node.target) and all(one.name in known for one in node.all_input_nodes):
            known[node.name] = node.target(*_filled(node.args, known), **_filled(node.kwargs, known))
        else:
            calls.append(node)
    if not calls or calls[-1] is not result or len(calls) > _MOST_CALLS:
        return None
    writes = []
    for number, node in enumerate(calls[:-1]):
        inside = _may_lie_in_place(calls, number, known, place)
        writes.append(_call(node, known, place if inside else None))
        known[node.name] = place if inside else _Temporary(node.name)
    last = calls[-1]
    if _overlaps(last, known, place) and not is_pointwise(last.target):
        return None
    if last.target is torch.ops.aten.convolution.default and len(calls) == 1:
        return _convolution(_filled(last.args, known), place)
    write = _call(last, known, place)
    if write is None or any(one is None for one in writes):
        return None
    return _one_after_the_other([one for one in writes if one is not None], write)


def _one_after_the_other(before: Sequence[Callable[[dict[str, Any]], Any]], last: Callable[..., Any]) -> Write:
    if not before:
        return lambda: last({})

    def write() -> None:
        temporaries: dict[str, Any] = {}
        for call in before:
            call(temporaries)
        last(temporaries)

    return write


def _call(node: Any, known: Mapping[str, Any], place: torch.Tensor | None) -> Callable[[dict[str, Any]], Any] | None:
    """A call that takes temporaries and writes into `place`, or makes a further temporary."""
    operator, args = relu_as_clamp(node.target, _filled(node.args, known))
    kwargs = _filled(node.kwargs, known)
    if place is not None:
        variant = out_variant(operator)
        if variant is None:
            return None
        operator, out = variant
        kwargs = {**kwargs, out: place}
    if not any(isinstance(value, _Temporary) for value in _flat((*args, *kwargs.values()))):
        if place is not None:
            return lambda temporaries: operator(*args, **kwargs)
        return lambda temporaries: temporaries.__setitem__(node.name, operator(*args, **kwargs))

    def call(temporaries: dict[str, Any]) -> None:
        result = operator(*_looked_up(args, temporaries), **_looked_up(kwargs, temporaries))
        if place is None:
            temporaries[node.name] = result

    return call


def _may_lie_in_place(calls: Sequence[Any], number: int, known: Mapping[str, Any], place: torch.Tensor) -> bool:
    """Whether an intermediate result may be written into `place`: only the next call reads it, element by element, and
    no later call reads memory of `place`."""
    node, following = calls[number], calls[number + 1]
    value = node.meta.get("val")
    if value is None or value.shape != place.shape or value.dtype != place.dtype or list(node.users) != [following]:
        return False
    if not is_pointwise(following.target) or out_variant(relu_as_clamp(node.target, ())[0]) is None:
        return False
    if any(_overlaps(later, known, place) for later in calls[number + 1 :]):
        return False
    return is_pointwise(node.target) or not _overlaps(node, known, place)


def _overlaps(node: Any, known: Mapping[str, Any], place: torch.Tensor) -> bool:
    """Whether a call reads memory of `place`, as far as its operands are known."""
    begin, end = place.data_ptr(), place.data_ptr() + place.nbytes
    for operand in node.all_input_nodes:
        value = known.get(operand.name)
        if hasattr(value, "untyped_storage"):
            assert value is not None
            first = value.data_ptr()
            if value.nbytes and first < end and begin < first + value.nbytes and value is not place:
                return True
    return False


def _convolution(args: tuple[Any, ...], place: torch.Tensor) -> Write | None:
    """As a matrix product, if that is not slower than by its own function with a copy."""
    import torch

    product = convolution_as_product(args, place)
    if product is None:
        return None

    def copied() -> None:
        place.copy_(torch.ops.aten.convolution.default(*args))

    return product if _least_s(product) <= _least_s(copied) else None


def _least_s(run: Write) -> float:
    times = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)


def _is_view(operator: Any) -> bool:
    """Whether its result is its operand's memory."""
    schema = getattr(operator, "_schema", None)
    if schema is None or schema.is_mutable:
        return False
    return any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)


def _filled(given: Any, known: Mapping[str, Any]) -> Any:
    """Arguments with the nodes of the traced graph replaced by what is known of them."""
    import torch

    return torch.fx.map_arg(given, lambda node: known[node.name])


def _flat(values: Any) -> list[Any]:
    found = []
    for value in values:
        found += _flat(value) if isinstance(value, (list, tuple)) else [value]
    return found


def _looked_up(given: Any, temporaries: Mapping[str, Any]) -> Any:
    if isinstance(given, _Temporary):
        return temporaries[given.name]
    if isinstance(given, dict):
        return {name: _looked_up(value, temporaries) for name, value in given.items()}
    if isinstance(given, (list, tuple)):
        return type(given)(_looked_up(value, temporaries) for value in given)
    return given
