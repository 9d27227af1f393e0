"""The shapes that the docstrings of operators' functions give, against those of a call; workbench/ops/contract.py has
their notation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

Shape = tuple[int, ...]

_SHAPES = re.compile(r"(?:(?P<name>\w+): )?(?P<broadcast>broadcast to )?(?P<shapes>\[.*?\](?: or \[.*?\])*|None)")


@dataclass(frozen=True)
class Value:
    """An operand or a result. patterns: its possible shapes, as texts of dims; None: it is not computed."""

    name: str
    patterns: tuple[tuple[str, ...], ...] | None
    is_broadcast: bool


@dataclass(frozen=True)
class Form:
    operands: tuple[Value, ...]
    results: tuple[Value, ...]


def forms_of(run: Callable[..., Any]) -> list[Form]:
    """The forms in the docstring's last paragraph; none if it gives no shapes."""
    paragraph = (inspect.getdoc(inspect.unwrap(run)) or "").split("\n\n")[-1]
    if "->" not in paragraph:
        return []
    lines: list[str] = []
    for line in paragraph.split("\n"):
        if lines and lines[-1].endswith((",", "->")):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return [_form(line) for line in lines]


def _form(line: str) -> Form:
    operands, results = line.split("->")
    return Form(_values(operands), _values(results))


def _values(text: str) -> tuple[Value, ...]:
    return tuple(_value(found) for found in _SHAPES.finditer(text))


def _value(found: re.Match[str]) -> Value:
    if found["shapes"] == "None":
        return Value(found["name"], None, False)
    patterns = tuple(_dims(shape) for shape in found["shapes"].split(" or "))
    return Value(found["name"] or "", patterns, bool(found["broadcast"]))


def _dims(shape: str) -> tuple[str, ...]:
    return tuple(dim.strip() for dim in shape.strip("[]").split(",") if dim.strip())


def fault(run: Callable[..., Any], call: Any, operands: Sequence[Any], results: Any) -> str:
    """What the docstring says wrongly of the shapes of this call; empty if they are right."""
    shapes = [_shape(value) for value in operands]
    outputs = [_shape(value) for value in (results if isinstance(results, tuple) else (results,))]
    forms = forms_of(run)
    if not forms:
        return "" if _is_broadcast(shapes, outputs) else f"operands {shapes} are not broadcast to {outputs}"
    if any(_fits(form, forms, _names(run, len(shapes)), shapes, outputs, call) for form in forms):
        return ""
    return f"{shapes} -> {outputs} fit no form"


def _shape(value: Any) -> Shape | None:
    return None if value is None else tuple(value.shape)


def _is_broadcast(operands: Sequence[Shape | None], results: Sequence[Shape | None]) -> bool:
    try:
        whole = np.broadcast_shapes(*(shape for shape in operands if shape is not None))
    except ValueError:
        return False
    return all(shape in (None, whole) for shape in results)


def _names(run: Callable[..., Any], count: int) -> list[str]:
    parameters = list(inspect.signature(inspect.unwrap(run)).parameters.values())[1:]
    names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    return [*names, *[""] * count][:count]


def _fits(
    form: Form,
    forms: Sequence[Form],
    names: Sequence[str],
    operands: Sequence[Shape | None],
    results: Sequence[Shape | None],
    call: Any,
) -> bool:
    """Whether the shapes are those of the form. An operand that no form names must have one element."""
    given = {name: shape for name, shape in zip(names, operands, strict=True) if shape is not None and name}
    named = {value.name for other in forms for value in other.operands}
    if any(prod(shape) != 1 for name, shape in given.items() if name not in named):
        return False
    pairs = [(value, given[value.name]) for value in form.operands if value.name in given]
    outputs = [(value, shape) for value, shape in zip(form.results, results, strict=False) if shape is not None]
    if any(value.patterns is None for value, _ in outputs):
        return False
    later = [pair for pair in pairs if pair[0].is_broadcast] + outputs
    sizes = {name: call.attr(name) for name in call.node.attributes if isinstance(call.attr(name), int)}
    return any(True for _ in _solutions([pair for pair in pairs if not pair[0].is_broadcast], later, sizes))


def _solutions(
    operands: list[tuple[Value, Shape]], later: list[tuple[Value, Shape]], sizes: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """The sizes that names can have."""
    if operands:
        (value, shape), *rest = operands
        for pattern in value.patterns or ():
            for found in _matches(pattern, shape, sizes, False):
                yield from _solutions(rest, later, found)
    elif later:
        (value, shape), *rest = later
        for pattern in value.patterns or ():
            if value.is_broadcast:
                if _reaches(pattern, shape, sizes):
                    yield from _solutions([], rest, sizes)
                continue
            for found in _matches(pattern, shape, sizes, True):
                yield from _solutions([], rest, found)
    else:
        yield sizes


def _matches(
    pattern: tuple[str, ...], shape: Shape, sizes: dict[str, Any], is_result: bool
) -> Iterator[dict[str, Any]]:
    """The sizes with those that the pattern gives to names; axes `*D` of several operands are broadcast."""
    if not pattern:
        if not shape or (not is_result and prod(shape) == 1):  # what is a scalar may be a vector of one
            yield sizes
        return
    dim, *rest = pattern
    if not dim.startswith("*"):
        if shape and (found := _with_size(dim, shape[0], sizes)) is not None:
            yield from _matches(tuple(rest), shape[1:], found, is_result)
        return
    for count in range(len(shape) + 1):
        part, known = shape[:count], sizes.get(dim)
        try:
            whole = part if known is None else np.broadcast_shapes(part, known)
        except ValueError:
            continue
        if not is_result or known in (None, part):
            yield from _matches(tuple(rest), shape[count:], {**sizes, dim: whole}, is_result)


def _with_size(dim: str, size: int, sizes: dict[str, Any]) -> dict[str, Any] | None:
    """The sizes with that of the dim; None if it has another. What cannot be computed yet may have any."""
    if dim.isidentifier():
        return {**sizes, dim: size} if sizes.get(dim, size) == size else None
    try:
        return sizes if eval(dim, {}, dict(sizes)) == size else None
    except (NameError, ZeroDivisionError):
        return sizes


def _reaches(pattern: tuple[str, ...], shape: Shape, sizes: dict[str, Any]) -> bool:
    """Whether the shape is broadcast to the pattern's, as far as that is known."""
    whole: list[int] = []
    for dim in pattern:
        if dim.startswith("*"):
            whole += sizes.get(dim, ())
            continue
        try:
            whole.append(int(eval(dim, {}, dict(sizes))))
        except NameError:
            return True
    try:
        return np.broadcast_shapes(shape, tuple(whole)) == tuple(whole)
    except ValueError:
        return False
