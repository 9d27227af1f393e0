"""Evaluates rewrites alone: the nodes that one removed and those that it inserted, on the same random operands.

Equal results say that the rewrite does not depend on the graph around it. Different results do not say that it is
wrong: it may rely on properties of its operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, OperatorSetIdProto, TensorProto, helper

from workbench.checker.files import read_constants
from workbench.checker.inference import inferred
from workbench.checker.outcome import Statement, listed
from workbench.checker.output import Output
from workbench.checker.plain import PlainConstant, PlainModel, PlainNode
from workbench.checker.rebuilding import node_proto
from workbench.checker.replay import LoggedEdit, Replay
from workbench.checker.running import ROUNDING, Array, cpu_session, largest_difference, random_array
from workbench.checker.types import PlainType, sizes_of

_MAX_REWRITES = 1_000  # the most rewrites that are evaluated
_STEPS_AROUND = 8  # producers that are followed to operands that both sides read
_NARROWED = 5e-2  # the largest difference by one operator in a narrower type, as a part of the largest element
_LARGEST = 2**22  # elements of all operands of one rewrite
_FEW, _DRAWS = 64, 16  # operands of fewer elements are drawn so often: few numbers may all have one sign


@dataclass(frozen=True)
class LocalRewrite:
    """where: the rewrite, for sentences. remove, insert: its nodes, with producers around them that both sides need.
    before, after: the constants that the two sides read. results: values that both sides compute. opsets: of the graph.
    narrowed: whether the inserted nodes run in a narrower element type.
    """

    where: str
    remove: tuple[PlainNode, ...]
    insert: tuple[PlainNode, ...]
    before: Mapping[str, PlainConstant]
    after: Mapping[str, PlainConstant]
    results: tuple[str, ...]
    opsets: Mapping[str, int]
    narrowed: bool


def local_rewrite(edit: LoggedEdit, graph: Replay, where: str, narrowed: bool) -> LocalRewrite:
    """The part of a rewrite that can be evaluated alone; without results if nothing can. graph: before the rewrite.

    If one side reads values that the other does not, their producers are included, up to a few steps.
    """
    removed, inserted = (
        {value for call in calls for value in call.outputs if value} for calls in (edit.remove, edit.insert)
    )
    results = () if edit.inside else tuple(sorted(removed & (inserted | edit.constants.keys())))
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
    return LocalRewrite(
        where, remove, insert, before, after | dict(edit.constants), results, dict(graph.opsets), narrowed
    )


def reevaluated(rewrites: Sequence[LocalRewrite], model: PlainModel, output: Output, seed: int) -> Iterator[Statement]:
    """Statements of how many of the rewrites give equal results alone."""
    evaluation = _Evaluation(model, output, seed)
    equal, differ = 0, []
    for rewrite in rewrites[:_MAX_REWRITES]:
        result = evaluation.has_equal_results(rewrite)
        equal += result is True
        if result is False:
            differ.append(rewrite.where)
    many = f"{len(rewrites):,} rewrites"
    if equal:
        claim = "the removed and the inserted nodes alone give equal results on random operands"
        yield Statement(f"for {equal:,} of {many}, {claim} (seed {seed})")
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
        self.functions = [*output.model.proto.functions]
        known = {(f.domain, f.name, f.overload) for f in self.functions}
        self.functions += [f for f in model.proto.functions if (f.domain, f.name, f.overload) not in known]
        self.constants = {**read_constants(output.model), **read_constants(model)}

    def has_equal_results(self, rewrite: LocalRewrite) -> bool | None:
        """Whether results are equal; None if it cannot be evaluated."""
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
                differences = [
                    (str(results[v].dtype), largest_difference([results[v]], [other_results[v]]))
                    for v in rewrite.results
                ]
                coarse = _NARROWED if rewrite.narrowed else 0.0
                equal = all(d <= max(ROUNDING[kind], coarse) if kind in ROUNDING else not d for kind, d in differences)
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
        graph.node.extend(node_proto(call, {}) for call in _in_order(calls))
        outputs = [value for call in calls for value in call.outputs if value]
        outputs += [value for value in rewrite.results if value in constants and value not in outputs]
        graph.output.extend(helper.make_empty_tensor_value_info(value) for value in outputs)
        opsets = {**self.opsets, **rewrite.opsets}
        proto = ModelProto(ir_version=10, graph=graph, functions=self.functions)
        proto.opset_import.extend(OperatorSetIdProto(domain=domain, version=n) for domain, n in opsets.items())
        session = cpu_session(proto)

        def run(feed: Mapping[str, Array]) -> dict[str, Array]:
            results = session.run(outputs, {value: array for value, array in feed.items() if value in read})
            return dict(zip(outputs, results, strict=True))

        return run

    def _tensor(self, name: str, constant: PlainConstant) -> TensorProto:
        tensor = TensorProto()
        if constant.data is not None:
            return TensorProto(name=name, data_type=constant.dtype, dims=constant.shape, raw_data=constant.data)
        tensor.CopyFrom(self.constants[constant])
        tensor.name = name
        return tensor


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
