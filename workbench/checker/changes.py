"""What an edit may change besides nodes and constants, and what loading and exporting changed, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from workbench.checker.inference import called_operator, nodes_within
from workbench.checker.outcome import DoesNotHold, Statement, escaped, in_quotes, listed
from workbench.checker.plain import FunctionKey, PlainModel, PlainNode
from workbench.checker.replay import LoggedEdit, Replay
from workbench.checker.types import PlainType, in_words, is_tensor, with_numbers

LOADING, EXPORTING = "loading", "exporting"
_MOST_NAMED = 6  # operators in a statement
_OWN = "workbench"  # the domain of the engine's own functions, whose calls a file may have without their bodies
_OTHERS_DOMAINS = ("", "ai.onnx", "com.microsoft", "com.ms")


def check_functions(edit: LoggedEdit, graph: Replay, model: PlainModel, frame: bool, where: str) -> None:
    """Raises DoesNotHold if a function takes the place of an operator or, in a pass, of a function."""
    for key, function in edit.functions.items():
        if function is None:
            continue
        name = in_quotes(".".join(filter(None, key)))
        if not frame and (key in graph.functions or key in model.functions):
            raise DoesNotHold(f"{where} gives the function {name} another body")
        if key in graph.functions:
            continue
        if key[0] in _OTHERS_DOMAINS or key[0].startswith("ai.onnx."):
            raise DoesNotHold(f"{where} adds the function {name} in a domain whose operators are defined elsewhere")
        if not (frame and key[0] == _OWN) and key in _called(model):
            raise DoesNotHold(f"{where} adds the function {name}, which the model calls as an operator of its runtime")


def _called(model: PlainModel) -> set[FunctionKey]:
    graphs = (model.proto.graph, *model.proto.functions)
    return {called_operator(node) for graph in graphs for node in nodes_within(graph)}


def check_pass(edit: LoggedEdit, graph: Replay, dims: Mapping[str, int], where: str) -> Iterator[Statement]:
    """What a pass did to inputs and outputs, in words. Raises DoesNotHold for what only loading and exporting do.

    dims: the sizes that the certificate is of; one of them may become a symbol that no input had.
    """
    if edit.opsets is not None:
        raise DoesNotHold(f"{where} changes the opset, which only {LOADING} and {EXPORTING} do")
    named = {dim for value in graph.inputs for dim in _sizes(graph.types.get(value)) if isinstance(dim, str)}
    for value, type_ in edit.types.items():
        before = graph.types.get(value)
        if type_ is None and value in edit.constants:  # an output that became a constant is of that constant's type
            continue
        numbers = {symbol: size for symbol, size in dims.items() if symbol not in named}
        if not _is_other_order(_with_open_sizes(before, named), with_numbers(type_, numbers)):
            raise DoesNotHold(
                f"{where} makes {in_quotes(value)} {in_words(type_)}, no permutation of {in_words(before)}, which it is"
            )
        yield Statement(f"{where}: {in_quotes(value)} is {in_words(type_)}, and was {in_words(before)}", proven=False)


def _sizes(type_: PlainType) -> Sequence[object]:
    return (type_[1] or ()) if is_tensor(type_) else ()


def _with_open_sizes(type_: PlainType, named: Collection[str]) -> PlainType:
    """The type with what no input names left open: such a symbol says only that the size is not known."""
    if not is_tensor(type_) or type_[1] is None:
        return type_
    return (type_[0], tuple(dim if isinstance(dim, int) or dim in named else None for dim in type_[1]))


def _is_other_order(before: PlainType, after: PlainType) -> bool:
    """Whether both have the same sizes in some order; sizes may have become known."""
    if before is None or after is None or not is_tensor(before) or not is_tensor(after) or before[0] != after[0]:
        return bool(before == after)
    if before[1] is None or after[1] is None:
        return bool(before[1] is None)
    if len(before[1]) != len(after[1]):
        return False
    left = Counter(after[1])
    left.subtract(dim for dim in before[1] if dim is not None)
    return all(count >= 0 for count in left.values())


def frame_statements(name: str, edit: LoggedEdit, before: Replay) -> Iterator[Statement]:
    """What loading or exporting changed, in words; nothing of it is checked."""
    opsets = {} if edit.opsets is None else edit.opsets
    moved = [
        f"opset{f' of {escaped(domain)}' if domain else ''} {before.opsets.get(domain, 'absent')} to"
        f" {opsets.get(domain, 'absent')}"
        for domain in {**before.opsets, **opsets}
        if edit.opsets is not None and opsets.get(domain) != before.opsets.get(domain)
    ]
    inside = [(key, body, inner) for key, bodies in edit.inside for body, inner in bodies]
    dropped = edit.drop.keys() - edit.constants.keys()
    parts = [
        *moved,
        *_nodes_and_constants(edit),
        *(
            f"in {escaped(body)} of the node that computes {in_quotes(key)}: {', '.join(_deep(inner)) or 'nothing'}"
            for key, body, inner in inside
        ),
        f"constants taken out: {len(dropped):,}" if dropped else "",
        *(f"function {in_quotes('.'.join(filter(None, key)))} {_how(key, edit, before)}" for key in edit.functions),
        *(
            f"{in_quotes(value)} is {in_words(type_)}, and was {in_words(before.types.get(value))}"
            for value, type_ in edit.types.items()
        ),
    ]
    yield Statement(f"{name}: {'; '.join(filter(None, parts)) or 'nothing that computes'}", proven=False)


def _nodes_and_constants(edit: LoggedEdit) -> list[str]:
    results = [
        f"nodes taken out: {_operators(edit.remove)}" if edit.remove else "",
        f"nodes put in: {_operators(edit.insert)}" if edit.insert else "",
        f"constants changed or added: {listed(edit.constants)}" if edit.constants else "",
    ]
    return [part for part in results if part]


def _deep(edit: LoggedEdit) -> list[str]:
    """The same, with what happened in the bodies of its nodes."""
    inner = [part for _, bodies in edit.inside for _, message in bodies for part in _deep(message)]
    return [*_nodes_and_constants(edit), *inner]


def _how(key: FunctionKey, edit: LoggedEdit, before: Replay) -> str:
    if edit.functions[key] is None:
        return "taken out"
    return "changed" if key in before.functions else "added"


def _operators(calls: Iterable[PlainNode]) -> str:
    """How many of each operator, the most frequent first."""
    counts = Counter(call.operator for call in calls).most_common()
    more = f" and {len(counts) - _MOST_NAMED:,} other operators" if len(counts) > _MOST_NAMED else ""
    return ", ".join(f"{count:,} {operator}" for operator, count in counts[:_MOST_NAMED]) + more
