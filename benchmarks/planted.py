"""Faults planted into models, one at a time, and how many of them `verify` finds.

Each model is taken as it is, simplified, and simplified in channels-last layout; a fault is planted into that file, and
the file is compared with the original as `verify` does. A fault changes one thing: a weight or a bias by a few percent,
a filter, a scalar, an attribute, an operator, the order of two operands, a bound, the axes of a Transpose. It counts if
ONNX Runtime runs the file, and if the node that it is in computes something else on random operands.

The files without a fault must be equal. The default models are three samples.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, RealModels, option, table
from benchmarks.shared.models import models_of
from benchmarks.shared.timing import timed
from workbench.backends.onnxruntime.sessions import open_session, run_session
from workbench.evidence.verification.verifier import Verifier
from workbench.ir import Graph
from workbench.run.inner_values.recording import message_of, session_with_values

DEFAULT = ("ppocr_cls_v2", "resnet50_narrow", "basic_pitch_nmp")
PUBLISHED = ("bert_12l_raw", "ddddocr_det_yolox", "open_nsfw_resnet", "ppocrv4_det", "ppocrv4_rec")
FORMS: Mapping[str, dict[str, Any]] = {  # how the files are made, and with which words
    "as it is": {"preset": "none"},
    "simplified": {"preset": "simplify"},
    "channels last": {"preset": "simplify", "layout": "greedy", "target": "cuda"},
}
TABLE = table("fault", *FORMS, "all")

Change = Callable[[], bool]  # changes the model in place; False if it has nothing to change
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
_EFFECT = 1e-5  # of the largest result: a change of the node's result that is no rounding
_OTHER_OPERATORS = {
    "Relu": ("LeakyRelu", "Identity", "HardSwish"),
    "Sigmoid": ("HardSigmoid", "Tanh"),
    "Tanh": ("Erf", "Sigmoid"),
    "Erf": ("Tanh",),
    "MaxPool": ("AveragePool",),
    "Add": ("Sub",),
    "Sub": ("Add",),
    "HardSwish": ("Relu",),
    "Max": ("Min",),
    "Floor": ("Round",),
    "Sqrt": ("Identity",),
    "Exp": ("Softplus",),
    "Softmax": ("Sigmoid",),
    "GlobalAveragePool": ("GlobalMaxPool",),
    "Gelu": ("Relu",),
    "Ceil": ("Floor",),
    "Greater": ("Less",),
    "Abs": ("Identity",),
}
_EPSILONS = ("BatchNormalization", "LayerNormalization", "InstanceNormalization")


@dataclass(frozen=True)
class Fault:
    """kind: what kind of fault it is. words: what and where. value: a result of the node that it is in."""

    kind: str
    words: str
    value: str


# ---- planting ------------------------------------------------------------------------------


class Planter:
    """Plants faults into copies of a model."""

    def __init__(self, model: onnx.ModelProto, random: np.random.Generator) -> None:
        self.model, self.random = model, random
        self.constants = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = node.attribute[0].t

    def plant(self) -> Fault | None:
        """Change the model; None if it has nothing for the kind that was drawn."""
        kinds = [
            *(self._element, self._element, self._few_percent, self._zeroed_filter, self._swapped_filters),
            *(self._scalar, self._bias, self._attribute, self._operator, self._operands, self._bound, self._axes),
        ]
        return kinds[self.random.integers(len(kinds))]()

    def _one_of(self, items: Sequence[Any]) -> Any:
        return items[self.random.integers(len(items))] if items else None

    def _nodes(self, *operators: str) -> list[NodeProto]:
        return [node for node in self.model.graph.node if node.op_type in operators]

    def _array(self, value: str) -> np.ndarray:
        return numpy_helper.to_array(self.constants[value])

    def _changed(self, value: str, change: Callable[[np.ndarray], None]) -> bool:
        before = self._array(value)
        after = before.copy()
        change(after)
        self.constants[value].CopyFrom(numpy_helper.from_array(after, self.constants[value].name))
        return bool((before != after).any())

    def _weights(self, fits: Callable[[NodeProto, np.ndarray], bool]) -> tuple[NodeProto, str] | None:
        """A node, and a constant of floats that it reads and that fits."""
        found = [
            (node, value)
            for node in self.model.graph.node
            for value in node.input
            if value in self.constants and self.constants[value].data_type in _FLOATS
            if fits(node, self._array(value))
        ]
        return self._one_of(found)

    # ---- weights

    def _element(self) -> Fault | None:
        return self._one_element("one element", lambda x, rms: x + 0.5 * rms)

    def _few_percent(self) -> Fault | None:
        return self._one_element("one element, 4 %", lambda x, rms: x * 1.04 if x else 0.05 * rms)

    def _one_element(self, kind: str, change: Callable[[float, float], float]) -> Fault | None:
        found = self._weights(lambda node, array: array.size > 8)
        if found is None:
            return None
        node, value = found
        array = self._array(value)
        place = tuple(self.random.integers(size) for size in array.shape)
        rms = float(np.sqrt(np.mean(np.square(array, dtype=np.float64)))) or 1.0
        words = f"element {[int(i) for i in place]} of '{value}' of {node.op_type}"
        done = self._changed(value, lambda a: a.__setitem__(place, change(float(a[place]), rms)))
        return Fault(kind, words, node.output[0]) if done else None

    def _filter(self, kind: str, change: Callable[[np.ndarray, int], None]) -> Fault | None:
        operators = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Conv_NHWC")
        found = self._weights(lambda node, array: node.op_type in operators and array.ndim > 1)
        if found is None:
            return None
        node, value = found
        axis, array = _axis_of_filters(node), self._array(value)
        if array.shape[axis] < 2:
            return None
        number = int(self.random.integers(array.shape[axis]))
        done = self._changed(value, lambda a: change(np.moveaxis(a, axis, 0), number))
        return Fault(kind, f"filter {number} of '{value}' of {node.op_type}", node.output[0]) if done else None

    def _zeroed_filter(self) -> Fault | None:
        return self._filter("a filter zeroed", lambda filters, number: filters.__setitem__(number, 0))

    def _swapped_filters(self) -> Fault | None:
        def swap(filters: np.ndarray, number: int) -> None:
            other = (number + 1) % len(filters)
            filters[[number, other]] = filters[[other, number]]

        return self._filter("two filters swapped", swap)

    def _scalar(self) -> Fault | None:
        found = self._weights(lambda node, array: array.size == 1 and bool(np.isfinite(array).all()))
        return None if found is None else self._scaled("a scalar, 2 %", *found, 1.02, 0)

    def _bias(self) -> Fault | None:
        found = self._weights(lambda node, array: array.ndim == 1 and array.size > 1)
        if found is None:
            return None
        return self._scaled(
            "one element of a vector, 10 %", *found, 1.1, int(self.random.integers(self._array(found[1]).size))
        )

    def _scaled(self, kind: str, node: NodeProto, value: str, factor: float, number: int) -> Fault | None:
        def scale(array: np.ndarray) -> None:
            array.flat[number] = array.flat[number] * factor if array.flat[number] else factor - 1

        done = self._changed(value, scale)
        return Fault(kind, f"element {number} of '{value}' of {node.op_type}", node.output[0]) if done else None

    # ---- nodes

    def _attribute(self) -> Fault | None:
        node = self._one_of(
            self._nodes(*_EPSILONS, "LeakyRelu", "Elu", "HardSigmoid", "Gemm", "Conv", "MaxPool", "Resize")
        )
        if node is None:
            return None
        now = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        if node.op_type in _EPSILONS:
            name, number = "epsilon", now.get("epsilon", 1e-5) * 100
        elif node.op_type in ("LeakyRelu", "Elu"):
            name, number = "alpha", now.get("alpha", 0.01 if node.op_type == "LeakyRelu" else 1.0) * 1.5
        elif node.op_type == "HardSigmoid":
            name, number = self._one_of([("alpha", now.get("alpha", 0.2) * 1.1), ("beta", now.get("beta", 0.5) + 0.05)])
        elif node.op_type == "Gemm":
            name, number = "alpha", now.get("alpha", 1.0) * 1.05
        elif node.op_type == "Resize":
            if now.get("mode", b"nearest") != b"nearest":
                return None
            name, number = "nearest_mode", b"floor" if now.get("nearest_mode") == b"ceil" else b"ceil"
        else:
            pads = list(now.get("pads", []))
            if len(pads) != 4 or not pads[0]:
                return None
            name, number = "pads", [pads[0] - 1, pads[1], pads[2] + 1, pads[3]]
        _set(node, name, number)
        return Fault("an attribute", f"{name} of {node.op_type} '{node.output[0]}' is {number}", node.output[0])

    def _operator(self) -> Fault | None:
        node = self._one_of(self._nodes(*_OTHER_OPERATORS))
        if node is None or len(node.output) > 1:
            return None
        before, after = node.op_type, self._one_of(_OTHER_OPERATORS[node.op_type])
        node.op_type = after
        if before in ("Softmax", "Gelu"):
            del node.attribute[:]
        for attribute in list(node.attribute) if before == "MaxPool" else []:
            if attribute.name in ("storage_order", "dilations"):
                node.attribute.remove(attribute)
        return Fault("another operator", f"{before} '{node.output[0]}' is {after}", node.output[0])

    def _operands(self) -> Fault | None:
        node = self._one_of(self._nodes("Sub", "Div", "Concat", "Pow"))
        if node is None or len(node.input) < 2 or node.input[0] == node.input[1]:
            return None
        node.input[0], node.input[1] = node.input[1], node.input[0]
        return Fault("operands swapped", f"those of {node.op_type} '{node.output[0]}'", node.output[0])

    def _bound(self) -> Fault | None:
        node = self._one_of(self._nodes("Clip"))
        if node is None:
            return None
        for value in node.input[1:]:
            if value in self.constants and self._changed(value, lambda a: a.__imul__(np.asarray(0.9, a.dtype))):
                return Fault("a bound, 10 %", f"'{value}' of Clip '{node.output[0]}'", node.output[0])
        return None

    def _axes(self) -> Fault | None:
        node = self._one_of(self._nodes("Transpose"))
        if node is None or not node.attribute:
            return None
        axes = list(node.attribute[0].ints)
        a, b = self.random.choice(len(axes), 2, replace=False)
        axes[a], axes[b] = axes[b], axes[a]
        _set(node, "perm", axes)
        return Fault("axes of a Transpose", f"perm of '{node.output[0]}' is {axes}", node.output[0])


def _axis_of_filters(node: NodeProto) -> int:
    if node.op_type == "ConvTranspose":
        return 1
    if node.op_type == "Gemm":
        return 0 if any(a.name == "transB" and a.i for a in node.attribute) else 1
    return -1 if node.op_type == "MatMul" else 0


def _set(node: NodeProto, name: str, value: Any) -> None:
    for attribute in [attribute for attribute in node.attribute if attribute.name == name]:
        node.attribute.remove(attribute)
    node.attribute.append(helper.make_attribute(name, value))


# ---- does it matter ------------------------------------------------------------------------------


def changes_its_node(
    before: onnx.ModelProto, after: onnx.ModelProto, value: str, values: Mapping[str, np.ndarray]
) -> bool:
    """Whether the node that computes the value gives something else on random operands.

    values: of a run, whose sizes and types the operands have.
    """
    first, second = (_alone(model, value, values) for model in (before, after))
    if first is None or second is None:
        return True  # it reads what cannot be drawn
    random = np.random.default_rng(0)
    for _ in range(2):
        operands = {name: _like(values[name], random) for name in {*first[1], *second[1]}}
        results = []
        for model, reads in (first, second):
            session = open_session(model, "disabled")
            results.append(run_session(session, {name: operands[name] for name in reads}))
        a, b = (next(iter(result.values())) for result in results)
        if a.size != b.size or a.dtype != b.dtype:
            return True
        a, b = (np.nan_to_num(array.astype(np.float64)) for array in (a.ravel(), b.ravel()))
        if np.abs(a - b).max(initial=0.0) > _EFFECT * np.abs(a).max(initial=0.0):
            return True
    return False


def _alone(model: onnx.ModelProto, value: str, values: Mapping[str, np.ndarray]) -> tuple[bytes, list[str]] | None:
    """A model of that node alone, and the operands that it reads besides constants."""
    node = next(node for node in model.graph.node if value in node.output)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    constants |= {n.output[0]: n.attribute[0].t for n in model.graph.node if n.op_type == "Constant"}
    reads = [v for v in dict.fromkeys(node.input) if v and v not in constants]
    if any(v not in values for v in reads):
        return None
    inputs = [
        helper.make_tensor_value_info(v, helper.np_dtype_to_tensor_dtype(values[v].dtype), values[v].shape)
        for v in reads
    ]
    weights = []
    for v in dict.fromkeys(node.input):
        if v in constants:
            weight = TensorProto()
            weight.CopyFrom(constants[v])
            weight.name = v
            weights.append(weight)
    graph = helper.make_graph([node], "one", inputs, [onnx.ValueInfoProto(name=value)], weights)
    words = {
        "opset_imports": model.opset_import,
        "functions": list(model.functions),
        "ir_version": min(model.ir_version, 10),
    }
    return helper.make_model(graph, **words).SerializeToString(), reads


def _like(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Random numbers in place of floats; integers stay as they are, since they may be places or sizes."""
    return (2 * random.standard_normal(array.shape)).astype(array.dtype) if array.dtype.kind == "f" else array


# ---- the benchmark --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """found: whether the verdict was not equal."""

    fault: Fault
    found: bool
    sentence: str


def forms_of(graph: Graph, folder: Path) -> Iterator[tuple[str, Path]]:
    """Files that compute what the graph computes, by how they were made."""
    for how, chosen in FORMS.items():
        file = folder / f"{how.replace(' ', '_')}.onnx"
        wb.export(wb.optimize(graph, **chosen).graph, file)
        yield how, file


def planted(
    verifier: Verifier, file: Path, count: int, random: np.random.Generator, scratch: Path
) -> Iterator[Outcome]:
    """Outcomes of so many faults in the file, or fewer if it has no place for more."""
    original = onnx.load(file)
    session = session_with_values(str(file), [v for n in message_of(str(file)).graph.node for v in n.output if v])
    fed = verifier.inputs_of(wb.load(file))
    values = {**fed, **run_session(session, fed)}
    done = 0
    for _ in range(20 * count):
        if done == count:
            return
        model = onnx.load(file)
        fault = Planter(model, random).plant()
        if fault is None:
            continue
        onnx.save(model, scratch)
        try:
            open_session(str(scratch), "disabled")
            if not changes_its_node(original, model, fault.value, values):
                continue
            verdict = verifier.check_file(wb.load(scratch), scratch)
        except Exception:  # of whatever kind: the file is no model any more
            continue
        if "this graph does not" in verdict.sentence:
            continue
        done += 1
        yield Outcome(fault, verdict.ok is False, verdict.sentence)


@dataclass
class Tally:
    """Outcomes by kind of fault, form of the model, and whether the fault was found; and the files without a fault that
    were refused."""

    counts: Counter[tuple[str, str, bool]]
    compared: int
    refused: list[str]

    def cell(self, kinds: Sequence[str], forms: Sequence[str]) -> str:
        """Found of planted."""
        found, missed = (sum(self.counts[k, form, ok] for k in kinds for form in forms) for ok in (True, False))
        return f"{found:,} of {found + missed:,}"

    def cells(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """In each form, and in all of them."""
        return (*(self.cell(kinds, [form]) for form in FORMS), self.cell(kinds, [*FORMS]))


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    tally, seconds = timed(lambda: tally_of(chosen))
    kinds = sorted({kind for kind, _, _ in tally.counts})
    yield TABLE
    yield from ((kind, *tally.cells([kind])) for kind in kinds)
    yield ("all", *tally.cells(kinds))
    yield f"{tally.compared} files without a fault were compared, of which {len(tally.refused)} were refused."
    yield from (f"- {sentence}" for sentence in tally.refused)
    yield f"{seconds:,.0f} s in all."


def tally_of(chosen: argparse.Namespace) -> Tally:
    random, tally = np.random.default_rng(chosen.seed), Tally(Counter(), 0, [])
    for path in models_of(chosen, DEFAULT):
        with tempfile.TemporaryDirectory() as scratch, Verifier(wb.load(path)) as verifier:
            graph = wb.load(path, dims=dict(verifier.dims) if verifier.reference else {})
            for how, file in forms_of(graph, Path(scratch)):
                print(f"{path.stem}, {how}", file=sys.stderr)
                verdict = verifier.check_file(wb.load(file), file)
                tally.compared += 1
                if not verdict.ok:
                    tally.refused.append(f"{path.stem}, {how}: {verdict.sentence}")
                    continue
                for outcome in planted(verifier, file, chosen.faults, random, Path(scratch) / "planted.onnx"):
                    tally.counts[outcome.fault.kind, how, outcome.found] += 1
                    if chosen.missed and not outcome.found:
                        missed = f"missed in {path.stem}, {how}: {outcome.fault.words}: {outcome.sentence}"
                        print(missed, file=sys.stderr)
    return tally


def published(real: RealModels) -> list[list[str]]:
    return [["--faults", "42", "--and-default", *real.named(*PUBLISHED)]]


OPTIONS = (
    *MODELS,
    option("--faults", type=int, default=40, help="for each model and form of it"),
    option("--seed", type=int, default=0),
    option("--missed", action="store_true", help="say on stderr what was not found"),
)
BENCHMARK = Benchmark(measure, (TABLE,), OPTIONS, published)
