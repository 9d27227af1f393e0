"""What a file declares of its inner values, beside what follows from it: a runtime may rely on either."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from onnx import GraphProto

from workbench.checker.inference import Inferred, bodies_of, types_in
from workbench.checker.outcome import DoesNotHold, Statement, escaped, in_quotes, listed
from workbench.checker.output import Output
from workbench.checker.plain import Declared
from workbench.checker.types import PlainType, contradiction, in_words, says_more, symbols_meant, with_numbers


def declared_statements(known: Collection[Declared], output: Output) -> Iterator[Statement]:
    """known: what the model, of the same nodes, declares too. Raises DoesNotHold if the output declares a type or shape
    that no value of it has."""
    result, same = output.inferred, set(known)
    own = [message for message in output.model.declared if message not in same]
    if not own:
        return
    if result.why:
        yield Statement(f"what the output declares of {len(own):,} inner values is not known to be so", proven=False)
        return
    types = _inner_types(result, output)
    meant: dict[str, int] = {}  # of symbols that no input has, the number that they have here
    odd = []
    for where, value, type_ in own:
        real = types.get((where, value))
        numbers = with_numbers(with_numbers(type_, output.dims), meant)
        meant |= symbols_meant(numbers, real)
        numbers = with_numbers(numbers, meant)
        if contradiction(numbers, real):
            place = f" in {escaped(where)}" if where else ""
            sentence = f"{in_quotes(value)}{place} to be {in_words(numbers)}; it is {in_words(real)}{output.with_dims}"
            raise DoesNotHold(f"the output declares {sentence}")
        if says_more(numbers, real):
            odd.append(value)
    if odd:
        yield Statement(
            f"that {listed(odd)} are of the sizes that the output declares does not follow from it", proven=False
        )


def _inner_types(inferred: Inferred, output: Output) -> dict[tuple[str, str], PlainType]:
    """By place and value, of the main graph and its bodies."""
    types = {("", value): type_ for value, type_ in inferred.types.items()}
    waiting: list[GraphProto] = [inferred.proto.graph]
    while waiting:
        for node in waiting.pop().node:
            for name, body in bodies_of(node):
                where = f"{next(filter(None, node.output), '')}.{name}"
                types |= {(where, value): type_ for value, type_ in types_in(body, output.dims).items()}
                waiting.append(body)
    return types
