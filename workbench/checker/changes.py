"""What an edit may change besides nodes and constants, and what loading and exporting changed, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from workbench.checker.inference import called_operator, nodes_within
from workbench.checker.operators import is_defined
from workbench.checker.outcome import DoesNotHold, Statement, escaped, in_quotes, listed
from workbench.checker.plain import WORKBENCH_DOMAIN, FunctionKey, PlainModel, PlainNode
from workbench.checker.replay import LoggedEdit, Replay
from workbench.checker.types import PlainType, differ_in_width, in_words, is_tensor, with_numbers

LOADING, EXPORTING = "loading", "exporting"
_MAX_NAMED = 6  # operators in a statement
_FROM_RUNTIMES = ("com.microsoft", "com.ms")
_RUNTIME_DOMAINS = ("", "ai.onnx", *_FROM_RUNTIMES)


def check_functions(edit: LoggedEdit, graph: Replay, model: PlainModel, frame: bool, where: str) -> None:
    """Raises DoesNotHold if a function takes the place of an operator or, in a pass, of a function.

    frame: whether the edit is of loading or exporting, not of a pass.
    """
    for key, function in edit.functions.items():
        if function is None:
            continue
        name = in_quotes(".".join(filter(None, key)))
        if not frame and (key in graph.functions or key in model.functions):
            raise DoesNotHold(f"{where} gives the function {name} another body")
        if key in graph.functions:
            continue
        if key[0] in _RUNTIME_DOMAINS or key[0].startswith("ai.onnx."):
            raise DoesNotHold(f"{where} adds the function {name} in a domain whose operators are defined elsewhere")
        if not (frame and key[0] == WORKBENCH_DOMAIN) and key in _called(model):
            raise DoesNotHold(f"{where} adds the function {name}, which the model calls as an operator of its runtime")


def _called(model: PlainModel) -> set[FunctionKey]:
    graphs = (model.proto.graph, *model.proto.functions)
    return {called_operator(node) for graph in graphs for node in nodes_within(graph)}


def runtime_operators(output: PlainModel, model: PlainModel) -> list[str]:
    """The operators that the output calls and the model does not, and of which only a runtime says what they do.

    Raises DoesNotHold if neither ONNX, nor a function, nor a runtime can define one.
    """
    results = []
    for key in sorted(_called(output) - output.functions.keys() - _called(model)):
        domain, op_type, overload = key
        name = ".".join(filter(None, key))
        if not overload and is_defined(domain, op_type, output.opsets.get(domain, 0)):
            continue
        if not any(domain == own or domain.startswith(f"{own}.") for own in _FROM_RUNTIMES):
            raise DoesNotHold(
                f"the output calls {in_quotes(name)}, which neither ONNX defines nor a function, nor has the model"
            )
        results.append(name)
    return results


def check_pass(edit: LoggedEdit, graph: Replay, dims: Mapping[str, int], where: str) -> Iterator[Statement]:
    """Statements of what an edit changes at inputs and outputs. Raises DoesNotHold if a pass may not change it.

    dims: the certificate's numbers for symbols. A pass may replace such a number by its symbol.
    """
    if edit.opsets is not None:
        raise DoesNotHold(f"{where} changes the opset, which only {LOADING} and {EXPORTING} do")
    named = {dim for value in graph.inputs for dim in _sizes(graph.types.get(value)) if isinstance(dim, str)}
    for value, type_ in edit.types.items():
        before = graph.types.get(value)
        if type_ is None and value in edit.constants:  # an output that became a constant has that constant's type
            continue
        numbers = {symbol: size for symbol, size in dims.items() if symbol not in named}
        if not _is_other_form(_with_open_sizes(before, named), with_numbers(type_, numbers)):
            raise DoesNotHold(
                f"{where} makes {in_quotes(value)} {in_words(type_)}, which is not a permutation of {in_words(before)}"
            )
        yield Statement(f"{where}: {in_quotes(value)} is {in_words(type_)}, and was {in_words(before)}", proven=False)


def _sizes(type_: PlainType) -> Sequence[object]:
    return (type_[1] or ()) if is_tensor(type_) else ()


def _with_open_sizes(type_: PlainType, named: Collection[str]) -> PlainType:
    """The type without symbols that no input has; such a symbol stands for an unknown size."""
    if not is_tensor(type_) or type_[1] is None:
        return type_
    return (type_[0], tuple(dim if isinstance(dim, int) or dim in named else None for dim in type_[1]))


def _is_other_form(before: PlainType, after: PlainType) -> bool:
    """Whether both have the same sizes in some order, and one element type, or float32 and a narrower one.

    Sizes may have become known.
    """
    if before is None or after is None or not is_tensor(before) or not is_tensor(after):
        return bool(before == after)
    if before[0] != after[0] and not differ_in_width(before, after):
        return False
    if before[1] is None or after[1] is None:
        return bool(before[1] is None)
    if len(before[1]) != len(after[1]):
        return False
    remaining = Counter(after[1])
    remaining.subtract(dim for dim in before[1] if dim is not None)
    return all(count >= 0 for count in remaining.values())


def load_export_statements(name: str, edit: LoggedEdit, before: Replay) -> Iterator[Statement]:
    """What an edit of loading or exporting changed, as one unchecked statement."""
    opsets = {} if edit.opsets is None else edit.opsets
    changed_opsets = [
        f"opset{f' of {escaped(domain)}' if domain else ''} {before.opsets.get(domain, 'absent')} to"
        f" {opsets.get(domain, 'absent')}"
        for domain in {**before.opsets, **opsets}
        if edit.opsets is not None and opsets.get(domain) != before.opsets.get(domain)
    ]
    bodies = [(key, body, inner) for key, bodies in edit.inside for body, inner in bodies]
    dropped = edit.drop.keys() - edit.constants.keys()
    parts = [
        *changed_opsets,
        *_nodes_and_constants(edit),
        *(
            f"in {escaped(body)} of the node that computes {in_quotes(key)}:"
            f" {', '.join(_with_nested(inner)) or 'nothing'}"
            for key, body, inner in bodies
        ),
        f"constants taken out: {len(dropped):,}" if dropped else "",
        *(
            f"function {in_quotes('.'.join(filter(None, key)))} {_function_change(key, edit, before)}"
            for key in edit.functions
        ),
        *(
            f"{in_quotes(value)} is {in_words(type_)}, and was {in_words(before.types.get(value))}"
            for value, type_ in edit.types.items()
        ),
    ]
    yield Statement(f"{name}: {'; '.join(filter(None, parts)) or 'nothing that is computed'}", proven=False)


def _nodes_and_constants(edit: LoggedEdit) -> list[str]:
    results = [
        f"nodes taken out: {_operators(edit.remove)}" if edit.remove else "",
        f"nodes put in: {_operators(edit.insert)}" if edit.insert else "",
        f"constants changed or added: {listed(edit.constants)}" if edit.constants else "",
    ]
    return [part for part in results if part]


def _with_nested(edit: LoggedEdit) -> list[str]:
    """The changes of nodes and constants, with those in bodies of the nodes."""
    inner = [part for _, bodies in edit.inside for _, body_edit in bodies for part in _with_nested(body_edit)]
    return [*_nodes_and_constants(edit), *inner]


def _function_change(key: FunctionKey, edit: LoggedEdit, before: Replay) -> str:
    if edit.functions[key] is None:
        return "taken out"
    return "changed" if key in before.functions else "added"


def _operators(calls: Iterable[PlainNode]) -> str:
    """How many of each operator, the most frequent first."""
    counts = Counter(call.operator for call in calls).most_common()
    more = f" and {len(counts) - _MAX_NAMED:,} other operators" if len(counts) > _MAX_NAMED else ""
    return ", ".join(f"{count:,} {operator}" for operator, count in counts[:_MAX_NAMED]) + more
