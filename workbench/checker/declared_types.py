"""Compares the types that a file declares for inner values with the inferred ones: a runtime may rely on either."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from onnx import GraphProto

from workbench.checker.inference import Inferred, bodies_of, types_in
from workbench.checker.outcome import DoesNotHold, Statement, escaped, in_quotes, listed
from workbench.checker.output import Output
from workbench.checker.plain import Declared
from workbench.checker.types import PlainType, contradiction, in_words, says_more, symbols_meant, with_numbers


def unconfirmed_type_statements(known: Collection[Declared], output: Output) -> Iterator[Statement]:
    """The declarations of the output that inference does not confirm. known: those of the model, if it has the same
    nodes; they are left out. Raises DoesNotHold if the output declares a type or shape that a value does not have."""
    result, same = output.inferred, set(known)
    declared = [declaration for declaration in output.model.declared if declaration not in same]
    if not declared:
        return
    if result.why:
        yield Statement(f"what the output declares of {len(declared):,} inner values is not confirmed", proven=False)
        return
    types = _inner_types(result, output)
    numbers_of: dict[str, int] = {}  # by symbol that no input has
    unconfirmed = []
    for where, value, type_ in declared:
        actual = types.get((where, value))
        numbers = with_numbers(with_numbers(type_, output.dims), numbers_of)
        numbers_of |= symbols_meant(numbers, actual)
        numbers = with_numbers(numbers, numbers_of)
        if contradiction(numbers, actual):
            location = f" in {escaped(where)}" if where else ""
            sentence = (
                f"{in_quotes(value)}{location} to be {in_words(numbers)}; it is {in_words(actual)}{output.with_dims}"
            )
            raise DoesNotHold(f"the output declares {sentence}")
        if says_more(numbers, actual):
            unconfirmed.append(value)
    if unconfirmed:
        yield Statement(
            f"that {listed(unconfirmed)} have the sizes that the output declares does not follow from its nodes",
            proven=False,
        )


def _inner_types(inferred: Inferred, output: Output) -> dict[tuple[str, str], PlainType]:
    """The types of values in the main graph and its bodies, by place and value."""
    types = {("", value): type_ for value, type_ in inferred.types.items()}
    waiting: list[GraphProto] = [inferred.proto.graph]
    while waiting:
        for node in waiting.pop().node:
            for name, body in bodies_of(node):
                where = f"{next(filter(None, node.output), '')}.{name}"
                types |= {(where, value): type_ for value, type_ in types_in(body, output.dims).items()}
                waiting.append(body)
    return types
