"""Evaluates rewrites alone: the nodes that one removed and those that it inserted, on the same random operands.

Equal results say that the rewrite does not depend on the graph around it. Different results do not say that it is
wrong: it may rely on properties of its operands.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, OperatorSetIdProto, TensorProto, helper

from workbench.checker.comparing import NARROWED, cast_to, largest_difference
from workbench.checker.drawing import Array, random_array
from workbench.checker.files import read_constants
from workbench.checker.inference import inferred
from workbench.checker.outcome import Statement, listed
from workbench.checker.output import Output
from workbench.checker.plain import FunctionKey, PlainConstant, PlainFunction, PlainModel, PlainNode, kernel_name
from workbench.checker.rebuilding import node_proto, proto_of_function
from workbench.checker.replay import LoggedEdit, Replay, with_functions
from workbench.checker.rounding import ROUNDING
from workbench.checker.sessions import cpu_session
from workbench.checker.types import PlainType, is_tensor, sizes_of

_MAX_REWRITES = 1_000  # the most rewrites that are evaluated
_STEPS_AROUND = 8  # producers that are followed to operands that both sides read
_NARROWED = 5e-2  # the largest difference by one operator in a narrower type, as a part of the largest element
_LARGEST = 2**22  # elements of all operands of one rewrite
_FEW, _DRAWS = 64, 16  # operands of fewer elements are drawn so often: few numbers may all have one sign


@dataclass(frozen=True)
class LocalRewrite:
    """where: the rewrite, for sentences. remove, insert: its nodes, with producers around them that both sides need.
    before, after: the constants that the two sides read. results: values that both sides compute. opsets: of the
    graph. functions: of the graph after it, which changes none that it had.
    """

    where: str
    remove: tuple[PlainNode, ...]
    insert: tuple[PlainNode, ...]
    before: Mapping[str, PlainConstant]
    after: Mapping[str, PlainConstant]
    results: tuple[str, ...]
    opsets: Mapping[str, int]
    functions: Mapping[FunctionKey, PlainFunction]


def local_rewrite(edit: LoggedEdit, graph: Replay, where: str) -> LocalRewrite:
    """The part of a rewrite that can be evaluated alone; without results if nothing can. graph: before the rewrite.

    If one side reads values that the other does not, their producers are included, up to a few steps. A node that stays
    and reads a constant that got other elements is on both sides.
    """
    changed = {name for name, old in edit.drop.items() if edit.constants.get(name, old) != old}
    removed, inserted = (
        {value for call in calls for value in call.outputs if value} for calls in (edit.remove, edit.insert)
    )
    around_changed = {call.key: call for name in changed for call in graph.readers(name)}
    staying = tuple(call for call in around_changed.values() if call not in edit.remove)
    edit = replace(edit, remove=(*edit.remove, *staying), insert=(*edit.insert, *staying))
    common = (removed & (inserted | edit.constants.keys())) | {v for call in staying for v in call.outputs if v}
    results = () if edit.inside else tuple(sorted(common | set(filter(graph.is_output, changed))))
    constants = graph.constants
    around: dict[str, PlainNode] = {}
    for _ in range(_STEPS_AROUND if results else 0):
        read, other_read = (_free_values([*around.values(), *calls]) for calls in (edit.remove, edit.insert))
        producers = [graph.producer(value) for value in read ^ other_read]
        fresh = {call.key: call for call in producers if call is not None and not removed.intersection(call.outputs)}
        if not fresh.keys() - around.keys():
            break
        around |= fresh
    remove, insert = (*around.values(), *edit.remove), (*around.values(), *edit.insert)
    before = {value: constants[value] for call in remove for value in call.reads if value in constants}
    after = {
        value: constants[value]
        for call in insert
        for value in call.reads
        if value in constants and value not in edit.drop
    }
    after |= edit.constants
    functions = with_functions(graph.functions, edit) if edit.functions else graph.functions
    return LocalRewrite(where, remove, insert, before, after, results, dict(graph.opsets), functions)


def reevaluated(rewrites: Sequence[LocalRewrite], model: PlainModel, output: Output, seed: int) -> Iterator[Statement]:
    """Statements of how many of the rewrites give equal results alone."""
    evaluation = _Evaluation(model, output, seed)
    counts, differ = Counter[bool](), []
    for rewrite in rewrites[:_MAX_REWRITES]:
        narrowed = evaluation.narrowed(rewrite)
        result = evaluation.has_equal_results(rewrite, narrowed)
        counts[bool(narrowed)] += result is True
        if result is False:
            differ.append(rewrite.where)
    many, equal = f"{len(rewrites):,} rewrites", counts.total()
    claim = "the removed and the inserted nodes alone give equal results on random operands"
    up_to = f", up to {_NARROWED:.0%} where they round to a narrower type"
    for is_narrowed, rounding in ((False, ""), (True, up_to)):
        if counts[is_narrowed]:
            yield Statement(f"for {counts[is_narrowed]:,} of {many}, {claim}{rounding} (seed {seed})")
    if differ:
        claim = "give different results alone; they may rely on properties of their operands"
        yield Statement(f"{len(differ):,} of {many} {claim}: {listed(differ)}", proven=False)
    rest = len(rewrites) - equal - len(differ)
    if rest:
        yield Statement(f"{rest:,} of {many} cannot be evaluated alone", proven=False)


class _Evaluation:
    """types: the known types, by value. Each evaluated rewrite adds the types of its results."""

    def __init__(self, model: PlainModel, output: Output, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.types = {**output.inferred.types, **inferred(model, output.dims).types}
        self.opsets = output.model.opsets
        self.files = (output.model, model)
        self.messages: dict[FunctionKey, tuple[PlainFunction, FunctionProto | None]] = {}
        self.constants = {**read_constants(output.model), **read_constants(model)}

    def narrowed(self, rewrite: LocalRewrite) -> set[str]:
        """The results that may differ by more than the rounding of their own types: on the way to them, inserted nodes
        round to a narrower type, or read what is rounded to one."""
        types = ((value, self.types.get(value)) for value in _free_values(rewrite.insert))
        found = {value for value, type_ in types if type_ is not None and is_tensor(type_) and type_[0] in NARROWED}
        for call in _in_order(rewrite.insert):
            if not found.isdisjoint(call.reads) or any(type_ in NARROWED for type_ in cast_to(call)):
                found.update(filter(None, call.outputs))
        return found.intersection(rewrite.results)

    def has_equal_results(self, rewrite: LocalRewrite, narrowed: Collection[str]) -> bool | None:
        """Whether results are equal; None if it cannot be evaluated. narrowed: those that may differ by more."""
        if not rewrite.results:
            return None
        operands = (
            (_free_values(rewrite.remove) | _free_values(rewrite.insert)) - rewrite.before.keys() - rewrite.after.keys()
        )
        types = {value: self.types.get(value) for value in sorted(operands)}
        sizes = [sizes_of(type_) for type_ in types.values()]
        if any(size is None for size in sizes) or sum(math.prod(size or ()) for size in sizes) > _LARGEST:
            return None
        few = sum(math.prod(size or ()) for size in sizes) < _FEW
        try:
            before = self._program(rewrite.remove, rewrite.before, types, rewrite)
            after = self._program(rewrite.insert, rewrite.after, types, rewrite)
            for _ in range(_DRAWS if few and types else 1):
                feed = {value: random_array(value, type_, {}, self.random, 2) for value, type_ in types.items()}
                results, other_results = before(feed), after(feed)
                equal = all(_is_equal(results[v], other_results[v], v in narrowed) for v in rewrite.results)
                if not equal:
                    break
        except Exception:  # ONNX Runtime has its own classes; what it does not run is not evaluated
            return None
        self.types |= {value: _type(array) for value, array in other_results.items()}
        return equal

    def _program(
        self,
        calls: Sequence[PlainNode],
        constants: Mapping[str, PlainConstant],
        types: Mapping[str, PlainType],
        rewrite: LocalRewrite,
    ) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
        """A function from operands to all values that the nodes compute, and results that are constants."""
        graph = GraphProto(name="graph")
        graph.initializer.extend(self._tensor(name, constant) for name, constant in constants.items())
        read = {value for call in calls for value in call.reads}
        graph.input.extend(
            helper.make_tensor_value_info(value, type_[0], type_[1]) for value, type_ in types.items() if value in read
        )
        unknown: dict[str, PlainConstant] = {}
        functions = self._functions(rewrite.functions)
        graph.node.extend(node_proto(_as_written(call, functions), unknown) for call in _in_order(calls))
        if unknown:
            raise ValueError("elements of its constants are not known")
        outputs = [value for call in calls for value in call.outputs if value]
        outputs += [value for value in rewrite.results if value in constants and value not in outputs]
        graph.output.extend(helper.make_empty_tensor_value_info(value) for value in outputs)
        opsets = {**self.opsets, **rewrite.opsets}
        proto = ModelProto(ir_version=10, graph=graph, functions=functions)
        proto.opset_import.extend(OperatorSetIdProto(domain=domain, version=n) for domain, n in opsets.items())
        session = cpu_session(proto)

        def run(feed: Mapping[str, Array]) -> dict[str, Array]:
            results = session.run(outputs, {value: array for value, array in feed.items() if value in read})
            return dict(zip(outputs, results, strict=True))

        return run

    def _functions(self, own: Mapping[FunctionKey, PlainFunction]) -> list[FunctionProto]:
        """The functions of a graph, and those that the output has in addition; without those with unknown elements."""
        functions = {**self.files[0].functions, **own}
        for key, function in functions.items():
            if key not in self.messages or self.messages[key][0] is not function:
                self.messages[key] = (function, self._message(key, function))
        return [proto for _, proto in map(self.messages.__getitem__, functions) if proto is not None]

    def _message(self, key: FunctionKey, function: PlainFunction) -> FunctionProto | None:
        for file in self.files:
            if file.functions.get(key) == function:
                written: FunctionProto = file.proto.functions[list(file.functions).index(key)]
                return written
        return proto_of_function(key, function)

    def _tensor(self, name: str, constant: PlainConstant) -> TensorProto:
        tensor = TensorProto()
        if constant.data is not None:
            return TensorProto(name=name, data_type=constant.dtype, dims=constant.shape, raw_data=constant.data)
        tensor.CopyFrom(self.constants[constant])
        tensor.name = name
        return tensor


def _is_equal(one: Any, other: Any, narrowed: bool) -> bool:
    rounding = ROUNDING.get(str(one.dtype))
    difference = largest_difference([one], [other])
    return difference <= max(rounding, _NARROWED if narrowed else 0.0) if rounding is not None else not difference


def _as_written(call: PlainNode, functions: Sequence[FunctionProto]) -> PlainNode:
    """The call, if it is of an engine's function, by the name of the one that has the call's attributes."""
    same = (f for f in functions if f.domain == call.domain and {*f.attribute} == call.attributes.keys())
    name = next((f.name for f in same if kernel_name(f.domain, f.name) == call.op_type), call.op_type)
    return replace(call, op_type=name)


def _free_values(calls: Sequence[PlainNode]) -> set[str]:
    """The values that the nodes read and do not compute."""
    computed = {value for call in calls for value in call.outputs}
    return {value for call in calls for value in call.reads} - computed


def _in_order(calls: Sequence[PlainNode]) -> list[PlainNode]:
    """The nodes in topological order; unchanged if they have a cycle."""
    waiting, order = list(calls), []
    while waiting:
        later = {value for call in waiting for value in call.outputs}
        ready = [call for call in waiting if not call.reads & later]
        if not ready:
            return list(calls)
        order += ready
        waiting = [call for call in waiting if call.reads & later]
    return order


def _type(array: Any) -> PlainType:
    if not isinstance(array, np.ndarray) or array.dtype == object:
        return None
    return (helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
