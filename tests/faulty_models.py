"""Faults put behind a random value of real models, and the check that finds them.

The check runs a candidate and what the wrong rewrite makes of it in ONNX Runtime and compares.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from onnx import ModelProto, NodeProto, helper, numpy_helper

from tests.commands import SAMPLES
from tests.faults import SHAPES, Arrays, Fault, Wrong
from workbench.evidence.reduction.candidates import Candidate

MOST_PLACES = 8  # of a base, at which a fault is tried


def injected(model: ModelProto, fault: Fault, place: str) -> ModelProto:
    """The model with the fault's nodes behind a value, read by all that read the value."""
    text = f'<ir_version: 8, opset_import: ["": 13]> g (float[N] x) => (float[N] y) {{ {fault.nodes} }}'
    inner = onnx.parser.parse_model(text).graph.node
    changed = ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    names = {"x": place, **{value: f"fault_{value}" for node in inner for value in node.output}}
    constants = {
        name: array for name, array in (SHAPES | fault.constants).items() if any(name in n.input for n in inner)
    }
    names.update({name: f"fault_{name}" for name in constants})
    for name, array in constants.items():
        graph.initializer.append(numpy_helper.from_array(np.asarray(array), names[name]))
    nodes = []
    for node in graph.node:
        replaced = NodeProto()
        replaced.CopyFrom(node)
        for at, value in enumerate(replaced.input):
            replaced.input[at] = names["y"] if value == place else value
        nodes.append(replaced)
        if place in node.output:
            for one in inner:
                nodes.append(
                    helper.make_node(one.op_type, [names.get(v, v) for v in one.input], [names[v] for v in one.output])
                )
                nodes[-1].attribute.extend(one.attribute)
    del graph.node[:]
    graph.node.extend(nodes)
    return changed


def places(values: Mapping[str, np.ndarray], model: ModelProto, seed: int) -> list[str]:
    """The values behind which a fault can be put, in random order. values: of a run."""
    outputs = {output.name for output in model.graph.output}
    made = [v for node in model.graph.node for v in node.output if v in values and v not in outputs]
    fitting = [v for v in made if values[v].dtype == np.float32 and values[v].ndim in (3, 4) and values[v].size >= 24]
    random.Random(seed).shuffle(fitting)
    return fitting


# ---- the check ---------------------------------------------------------------------------------


@cache
def bases() -> Mapping[str, tuple[ModelProto, Arrays]]:
    """Models into which faults are put, with inputs."""
    resnet, pitch, ocr = (
        onnx.load(SAMPLES / f"{name}.onnx") for name in ("resnet50_narrow", "basic_pitch_nmp", "ppocr_cls_v2")
    )
    return {
        "basic_pitch_nmp": (pitch, random_inputs({"serving_default_input_2:0": (1, 43844, 1)})),
        "ppocr_cls_v2": (ocr, random_inputs({"x": (1, 3, 48, 96)})),
        "resnet50_narrow": (
            onnx.version_converter.convert_version(resnet, 13),
            random_inputs({"gpu_0/data_0": (1, 3, 224, 224)}),
        ),
    }


@cache
def values_of(name: str) -> Arrays:
    """All values of a base, in one run."""
    model, inputs = bases()[name]
    seen = ModelProto()
    seen.CopyFrom(model)
    outputs = [output.name for output in seen.graph.output]
    made = [value for node in seen.graph.node for value in node.output if value and value not in outputs]
    seen.graph.output.extend(onnx.ValueInfoProto(name=value) for value in made)
    return dict(zip([*outputs, *made], outputs_of(seen, inputs), strict=True))


def faulty(fault: Fault, seed: int) -> tuple[str, ModelProto, Arrays]:
    """A base, its name first, with the fault at the first random place where it shows in the outputs; and its inputs."""
    names = list(bases())
    for name in (*names[seed % len(names) :], *names[: seed % len(names)]):
        base, inputs = bases()[name]
        for place in places(values_of(name), base, seed)[:MOST_PLACES]:
            model = injected(base, fault, place)
            if differs(model, fault.wrong, inputs):
                return name, model, inputs
    raise AssertionError(f"{fault.name} shows nowhere")


def outputs_of(model: ModelProto, inputs: Arrays) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {info.name: inputs[info.name] for info in session.get_inputs()})


def differs(model: ModelProto, wrong: Wrong, inputs: Arrays) -> bool:
    """Whether the wrong rewrite changes what the model computes; not if one of both does not run."""
    rewritten = ModelProto()
    rewritten.CopyFrom(model)
    wrong(rewritten)
    if rewritten == model:
        return False
    try:
        expected, found = outputs_of(model, inputs), outputs_of(rewritten, inputs)
    except Exception:  # onnxruntime's own classes have no common base but Exception
        return False
    return any(
        a.shape != b.shape or not np.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True)
        for a, b in zip(expected, found, strict=True)
    )


def check_of(wrong: Wrong) -> Callable[[Candidate], bool]:
    return lambda candidate: differs(candidate.complete, wrong, candidate.inputs)


def random_inputs(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
