"""Rewrites by themselves: the nodes that one took out and those that it put in, on the same random operands.

Equal results say that the rewrite needs nothing of the graph around it. Different ones do not say that it is wrong: it
may rest on what its operands are.
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

_MOST = 1_000  # rewrites that are evaluated
_STEPS_AROUND = 8
_LARGEST = 2**22  # elements of all operands of one
_FEW, _DRAWS = 64, 16  # with fewer elements than that, so many draws: few numbers may all have one sign


@dataclass(frozen=True)
class LocalRewrite:
    """where: in words. remove, insert: nodes, with those around them that both sides need. before, after: the constants
    that they read. ends: results that are there before and after. opsets: of the graph."""

    where: str
    remove: tuple[PlainNode, ...]
    insert: tuple[PlainNode, ...]
    before: Mapping[str, PlainConstant]
    after: Mapping[str, PlainConstant]
    ends: tuple[str, ...]
    opsets: Mapping[str, int]


def local_rewrite(edit: LoggedEdit, graph: Replay, where: str) -> LocalRewrite:
    """What of a rewrite can be evaluated by itself; without ends if nothing can. graph: before it.

    Where one side reads what the other does not, the nodes that compute it are taken along, up to a few steps.
    """
    removed, made = (
        {value for call in calls for value in call.outputs if value} for calls in (edit.remove, edit.insert)
    )
    ends = () if edit.inside else tuple(sorted(removed & (made | edit.constants.keys())))
    held = graph.constants
    around: dict[str, PlainNode] = {}
    for _ in range(_STEPS_AROUND if ends else 0):
        one, other = (_read([*around.values(), *calls]) for calls in (edit.remove, edit.insert))
        producers = [graph.maker(value) for value in one ^ other]
        fresh = {call.key: call for call in producers if call is not None and not removed.intersection(call.outputs)}
        if not fresh.keys() - around.keys():
            break
        around |= fresh
    remove, insert = (*around.values(), *edit.remove), (*around.values(), *edit.insert)
    before = {value: held[value] for call in remove for value in call.reads if value in held}
    kept = {value: held[value] for call in insert for value in call.reads if value in held and value not in edit.drop}
    return LocalRewrite(where, remove, insert, before, kept | dict(edit.constants), ends, dict(graph.opsets))


def reevaluated(rewrites: Sequence[LocalRewrite], model: PlainModel, output: Output, seed: int) -> Iterator[Statement]:
    """How many of the rewrites give equal results by themselves."""
    evaluation = _Evaluation(model, output, seed)
    equal, differ = 0, []
    for rewrite in rewrites[:_MOST]:
        result = evaluation.of(rewrite)
        equal += result is True
        if result is False:
            differ.append(rewrite.where)
    many = f"{len(rewrites):,} rewrites"
    if equal:
        words = "the nodes taken out and those put in give equal results on random operands by themselves"
        yield Statement(f"of {equal:,} of {many} {words} (seed {seed})")
    if differ:
        words = "give other results by themselves, and may rest on what their operands are"
        yield Statement(f"{len(differ):,} of {many} {words}: {listed(differ)}", proven=False)
    rest = len(rewrites) - equal - len(differ)
    if rest:
        yield Statement(f"{rest:,} of {many} cannot be evaluated by themselves", proven=False)


class _Evaluation:
    """types: of values, as far as they are known; those of new values become known as rewrites are evaluated."""

    def __init__(self, model: PlainModel, output: Output, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.types = {**output.inferred.types, **inferred(model, output.dims).types}
        self.opsets = output.model.opsets
        self.functions = [*output.model.proto.functions]
        own = {(f.domain, f.name, f.overload) for f in self.functions}
        self.functions += [f for f in model.proto.functions if (f.domain, f.name, f.overload) not in own]
        self.held = {**read_constants(output.model), **read_constants(model)}

    def of(self, rewrite: LocalRewrite) -> bool | None:
        """Whether results are equal; None if it cannot be evaluated."""
        if not rewrite.ends:
            return None
        operands = (_read(rewrite.remove) | _read(rewrite.insert)) - rewrite.before.keys() - rewrite.after.keys()
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
                one, other = before(feed), after(feed)
                apart = [(str(one[v].dtype), largest_difference([one[v]], [other[v]])) for v in rewrite.ends]
                equal = all(by <= ROUNDING.get(kind, 0.0) for kind, by in apart)
                if not equal:
                    break
        except Exception:  # ONNX Runtime has its own classes; what it does not run is not evaluated
            return None
        self.types |= {value: _type(array) for value, array in other.items()}
        return equal

    def _program(
        self,
        calls: Sequence[PlainNode],
        constants: Mapping[str, PlainConstant],
        types: Mapping[str, PlainType],
        rewrite: LocalRewrite,
    ) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
        """Computes, from the operands, all values that the nodes compute, and ends that are constants."""
        graph = GraphProto(name="alone")
        graph.initializer.extend(self._tensor(name, constant) for name, constant in constants.items())
        read = {value for call in calls for value in call.reads}
        graph.input.extend(
            helper.make_tensor_value_info(value, type_[0], type_[1]) for value, type_ in types.items() if value in read
        )
        graph.node.extend(node_proto(call, {}) for call in _in_order(calls))
        made = [value for call in calls for value in call.outputs if value]
        made += [value for value in rewrite.ends if value in constants and value not in made]
        graph.output.extend(helper.make_empty_tensor_value_info(value) for value in made)
        opsets = {**self.opsets, **rewrite.opsets}
        proto = ModelProto(ir_version=10, graph=graph, functions=self.functions)
        proto.opset_import.extend(OperatorSetIdProto(domain=domain, version=n) for domain, n in opsets.items())
        session = cpu_session(proto)

        def run(feed: Mapping[str, Array]) -> dict[str, Array]:
            result = session.run(made, {value: array for value, array in feed.items() if value in read})
            return dict(zip(made, result, strict=True))

        return run

    def _tensor(self, name: str, constant: PlainConstant) -> TensorProto:
        tensor = TensorProto()
        if constant.data is not None:
            return TensorProto(name=name, data_type=constant.dtype, dims=constant.shape, raw_data=constant.data)
        tensor.CopyFrom(self.held[constant])
        tensor.name = name
        return tensor


def _read(calls: Sequence[PlainNode]) -> set[str]:
    """What the nodes read and do not compute."""
    made = {value for call in calls for value in call.outputs}
    return {value for call in calls for value in call.reads} - made


def _in_order(calls: Sequence[PlainNode]) -> list[PlainNode]:
    """Each after those whose results it reads."""
    waiting, result = list(calls), []
    while waiting:
        later = {value for call in waiting for value in call.outputs}
        ready = [call for call in waiting if not call.reads & later]
        if not ready:
            return list(calls)
        result += ready
        waiting = [call for call in waiting if call.reads & later]
    return result


def _type(array: Any) -> PlainType:
    if not isinstance(array, np.ndarray) or array.dtype == object:
        return None
    return (helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
