"""Calls of every operator that had an older form, at opsets 7 to 23, alone and beside foreign operators.

    python -m tests.older_calls

runs the whole matrix: each call, at each opset at which it is valid, in each neighbourhood, through every pass, preset
and layout strategy. Each result must open, keep what nobody may change, compute the same in ONNX Runtime, and be
optimized again. The tests run a part of it (`test_older_calls.py`).
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper, parser

import passes as library
import workbench as wb
from workbench.formats.io.checks import every_node, opset_of
from workbench.ir import Graph, check
from workbench.ir.function_calls import graphs_within
from workbench.ir.signature_changes import is_valid_unchanged
from workbench.ir.text import OPSET
from workbench.ir.versioned import opset_of_domain

X, ROW = "float[2,3,4,4] x", "float[6,8] x"
S2, HALF = "float[4] s = {1, 1, 2, 1.5}", "float[4] s = {1, 1, 0.5, 0.5}"
C3 = "float[3] c = {1, 2, 3}"


@dataclass(frozen=True)
class Older:
    """A graph with one older call; its first input is `x`.

    first, last: opsets at which it is valid. own: whether it has no form but its own.
    """

    name: str
    first: int
    last: int
    text: str
    own: bool = False


def _reductions() -> Iterator[Older]:
    for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare", "Sum"):
        op, last = f"Reduce{kind}", 12 if kind == "Sum" else 17
        yield Older(op, 7, last, f"g ({X}) => (y) {{ y = {op} <axes = [1, 3], keepdims = 0> (x) }}")
        yield Older(f"{op} all", 7, last, f"g ({X}) => (y) {{ y = {op} (x) }}")
        yield Older(f"{op} from the end", 11, last, f"g ({X}) => (y) {{ y = {op} <axes = [-1]> (x) }}")


def _softmaxes() -> Iterator[Older]:
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        yield Older(op, 7, 12, f"g ({X}) => (y) {{ y = {op} (x) }}")
        yield Older(f"{op} of rows", 7, 12, f"g ({ROW}) => (y) {{ y = {op} (x) }}")
        yield Older(f"{op} of all", 7, 12, f"g ({X}) => (y) {{ y = {op} <axis = 0> (x) }}")
        yield Older(f"{op} of two axes", 7, 12, f"g ({X}) => (y) {{ y = {op} <axis = 2> (x) }}")
        yield Older(f"{op} of the last", 7, 12, f"g ({X}) => (y) {{ y = {op} <axis = 3> (x) }}")
        yield Older(f"{op} from the end", 11, 12, f"g ({X}) => (y) {{ y = {op} <axis = -1> (x) }}")
        yield Older(f"{op} of one pixel", 7, 12, f"g (float[2,5,1,1] x) => (y) {{ y = {op} (x) }}")
        yield Older(f"{op} of nothing", 7, 12, f"g (float[0,3,2] x) => (y) {{ y = {op} (x) }}")
        yield Older(f"{op} of no width", 7, 12, f"g (float[2,3,0] x) => (y) {{ y = {op} (x) }}")


def _images() -> Iterator[Older]:
    near = "mode = 'nearest'"
    yield Older(
        "Upsample of attributes", 7, 8, f"g ({X}) => (y) {{ y = Upsample <{near}, scales = [1.0, 1.0, 2.0, 1.5]> (x) }}"
    )
    yield Older(
        "Upsample linear",
        7,
        8,
        f"g ({X}) => (y) {{ y = Upsample <mode = 'linear', scales = [1.0, 1.0, 2.0, 2.0]> (x) }}",
    )
    yield Older("Upsample", 9, 9, f"g ({X}) => (y) <{S2}> {{ y = Upsample <{near}> (x, s) }}")
    yield Older("Resize", 10, 10, f"g ({X}) => (y) <{S2}> {{ y = Resize <{near}> (x, s) }}")
    yield Older("Resize linear", 10, 10, f"g ({X}) => (y) <{S2}> {{ y = Resize <mode = 'linear'> (x, s) }}")
    yield Older(
        "Resize linear that shrinks", 10, 10, f"g ({X}) => (y) <{HALF}> {{ y = Resize <mode = 'linear'> (x, s) }}"
    )
    yield Older("Resize that shrinks", 10, 10, f"g ({X}) => (y) <{HALF}> {{ y = Resize <{near}> (x, s) }}", True)
    yield Older(
        "Resize of TensorFlow",
        11,
        12,
        f"g ({X}) => (y) <{S2}, float[0] r = {{}}> "
        f"{{ y = Resize <{near}, coordinate_transformation_mode = 'tf_half_pixel_for_nn'> (x, r, s) }}",
        True,
    )
    yield Older(
        "Resize to sizes",
        11,
        23,
        f"g ({X}) => (y) <int64[4] z = {{2, 3, 6, 3}}, float[0] r = {{}}> {{ y = Resize (x, r, r, z) }}",
    )
    yield Older(
        "Resize cubic",
        11,
        23,
        f"g ({X}) => (y) <{S2}, float[0] r = {{}}> {{ y = Resize <mode = 'cubic', cubic_coeff_a = -0.5, exclude_outside = 1> (x, r, s) }}",
    )
    yield Older("Resize defaults", 11, 23, f"g ({X}) => (y) <{HALF}, float[0] r = {{}}> {{ y = Resize (x, r, s) }}")
    yield Older(
        "Resize of a part",
        11,
        23,
        f"g ({X}) => (y) <{S2}, float[8] r = {{0, 0, 0.1, 0.2, 1, 1, 1.5, 0.8}}> {{ y = Resize <mode = 'linear', "
        "coordinate_transformation_mode = 'tf_crop_and_resize', extrapolation_value = 2.0> (x, r, s) }",
    )
    yield Older(
        "Resize with another rounding",
        11,
        23,
        f"g ({X}) => (y) <{S2}, float[0] r = {{}}> {{ y = Resize <nearest_mode = 'ceil'> (x, r, s) }}",
    )
    for kind in ("avg", "max"):
        yield Older(
            f"RoiAlign {kind}",
            10,
            15,
            f"g ({X}) => (y) <float[2,4] r = {{0, 0, 3, 3, 1, 0, 2, 3}}, int64[2] b = {{0, 1}}> "
            f"{{ y = RoiAlign <output_height = 2, output_width = 2, mode = '{kind}', spatial_scale = 0.5, sampling_ratio = 1> (x, r, b) }}",
        )
    for mode in (
        "",
        "<mode = 'bilinear'>",
        "<mode = 'nearest'>",
        "<mode = 'bicubic', align_corners = 1, padding_mode = 'border'>",
    ):
        yield Older(
            f"GridSample {mode}",
            16,
            19,
            f"g ({X}) => (y) <float[2,1,2,2] t = {{-0.5, 0.1, 0.2, 0.7, 0.9, -0.3, 0, 1}}> {{ y = GridSample {mode} (x, t) }}",
        )
    yield Older(
        "GroupNormalization",
        18,
        20,
        "g (float[2,4,3,3] x) => (y) <float[2] c = {1, 2}, float[2] d = {0, 1}> "
        "{ y = GroupNormalization <num_groups = 2> (x, c, d) }",
    )


def _norms() -> Iterator[Older]:
    call = "BatchNormalization"
    yield Older(call, 7, 23, f"g ({X}) => (y) <{C3}> {{ y = {call} <epsilon = 0.1, momentum = 0.5> (x, c, c, c, c) }}")
    yield Older(f"{call} spatial", 7, 8, f"g ({X}) => (y) <{C3}> {{ y = {call} <spatial = 1> (x, c, c, c, c) }}")
    yield Older(
        f"{call} of elements",
        7,
        8,
        f"g (float[2,3,1,2] x) => (y) <float[3,1,2] c = {{1, 2, 3, 4, 5, 6}}> {{ y = {call} <spatial = 0> (x, c, c, c, c) }}",
        True,
    )
    yield Older(f"{call} with statistics", 7, 13, f"g ({X}) => (y) <{C3}> {{ y, m, v, a, b = {call} (x, c, c, c, c) }}")
    yield Older("Dropout", 7, 11, f"g ({X}) => (y) {{ y = Dropout (x) }}")
    yield Older("Dropout of little", 7, 11, f"g ({X}) => (y) {{ y = Dropout <ratio = 0.1> (x) }}")
    yield Older("Dropout with a mask", 7, 11, f"g ({X}) => (y) {{ y, m = Dropout (x) }}")
    yield Older("Dropout whose mask is read", 7, 9, f"g ({X}) => (y, m) {{ y, m = Dropout (x) }}", True)
    yield Older(
        "Dropout whose mask is returned", 10, 11, f"g ({X}) => (y, bool[2,3,4,4] m) {{ y, m = Dropout (x) }}", True
    )


def _moves() -> Iterator[Older]:
    for text in ("<min = -0.5, max = 0.25>", "<min = 0.0>", "<max = 0.5>", ""):
        yield Older(f"Clip {text}", 7, 10, f"g ({X}) => (y) {{ y = Clip {text} (x) }}")
    for text in ("", ", value = 3.0", ", mode = 'edge'", ", mode = 'reflect'", ", mode = 'edge', value = 2.0",
                 ", mode = 'reflect', value = 0.0"):  # fmt: skip
        yield Older(f"Pad{text}", 7, 10, f"g ({X}) => (y) {{ y = Pad <pads = [0, 0, 1, 2, 0, 0, 2, 1]{text}> (x) }}")
    yield Older("Pad less", 7, 10, f"g ({X}) => (y) {{ y = Pad <pads = [0, 0, -1, 0, 0, 0, 0, -1]> (x) }}")
    for text in ("axes = [1, 2], starts = [0, 1], ends = [2, 3]", "starts = [0, 1], ends = [1, 3]",
                 "axes = [3, 1], starts = [-3, 0], ends = [-1, 9000]"):  # fmt: skip
        yield Older(f"Slice {text}", 7, 9, f"g ({X}) => (y) {{ y = Slice <{text}> (x) }}")
    yield Older("Split of attributes", 7, 12, f"g ({X}) => (y, z) {{ y, z = Split <axis = 2, split = [1, 3]> (x) }}")
    yield Older("Split", 7, 17, f"g ({X}) => (y, z) {{ y, z = Split (x) }}")
    yield Older("Split along", 7, 17, f"g ({X}) => (y, z) {{ z, y = Split <axis = 3> (x) }}")
    yield Older("Split from the end", 11, 17, f"g ({X}) => (y, z) {{ z, y = Split <axis = -1> (x) }}")
    yield Older(
        "Split to sizes", 13, 17, f"g ({X}) => (y, z) <int64[2] p = {{3, 1}}> {{ y, z = Split <axis = 2> (x, p) }}"
    )
    yield Older("Squeeze", 7, 12, "g (float[2,1,3,1] x) => (y) { y = Squeeze <axes = [1]> (x) }")
    yield Older("Squeeze all", 7, 12, "g (float[2,1,3,1] x) => (y) { y = Squeeze (x) }")
    yield Older("Squeeze from the end", 11, 12, "g (float[2,1,3,1] x) => (y) { y = Squeeze <axes = [-1]> (x) }")
    yield Older("Unsqueeze", 7, 12, f"g ({X}) => (y) {{ y = Unsqueeze <axes = [0, 3]> (x) }}")
    yield Older("Unsqueeze from the end", 11, 12, f"g ({X}) => (y) {{ y = Unsqueeze <axes = [-1]> (x) }}")
    yield Older("TopK", 7, 9, f"g ({X}) => (y, int64[a,b,c,d] i) {{ y, i = TopK <k = 2> (x) }}")
    yield Older("TopK along", 7, 9, f"g ({X}) => (y, int64[a,b,c,d] i) {{ y, i = TopK <k = 3, axis = 1> (x) }}")
    yield Older(
        "Scatter",
        9,
        10,
        f"g ({ROW}) => (y) <int64[1,2] i = {{1, 5}}, float[1,2] u = {{9, 8}}> {{ y = Scatter (x, i, u) }}",
    )
    yield Older(
        "Scatter along",
        9,
        10,
        f"g ({ROW}) => (y) <int64[1,2] i = {{1, 5}}, float[1,2] u = {{9, 8}}> {{ y = Scatter <axis = 1> (x, i, u) }}",
    )
    yield Older("DFT", 17, 19, "g (float[1,8,4,1] x) => (y) { y = DFT (x) }")
    yield Older("DFT along", 17, 19, "g (float[1,4,8,1] x) => (y) { y = DFT <axis = 2, onesided = 1> (x) }")
    yield Older("DFT of a part", 17, 19, "g (float[1,8,4,2] x) => (y) <int64 n = {5}> { y = DFT <inverse = 1> (x, n) }")


def _inner() -> Iterator[Older]:
    yield Older(
        "If",
        7,
        9,
        f"g ({X}) => (y) <bool c = {{1}}> {{ y = If (c) <then_branch = t () => (float[2,3,4,2] a) "
        "{ r = Softmax <axis = 2> (x) a = Slice <axes = [3], starts = [1], ends = [3]> (r) }, "
        "else_branch = e () => (float[2,3,4,2] b) { b = Slice <axes = [3], starts = [0], ends = [2]> (x) }> }",
    )
    yield Older(
        "Loop",
        11,
        12,
        f"g ({X}) => (y) <int64 n = {{2}}, bool t = {{1}}> {{ y = Loop (n, t, x) <body = b (int64 i, bool k, "
        "float[2,3,4,4] u) => (bool l, float[2,3,4,4] v) { v = Softmax <axis = 2> (u) l = Identity (k) }> }",
    )
    yield Older(
        "Scan",
        8,
        8,
        "g (float[1,3,2] x) => (y) <float[1,2] o = {0, 0}> { q, y = Scan <num_scan_inputs = 1, directions = [1], "
        "body = b (float[2] u, float[2] v) => (float[2] a, float[2] z) { a = Add (u, v) z = Identity (a) }> (, o, x) }",
        True,
    )


def _functions() -> Iterator[Older]:
    """Files of IR 8 may have functions at any opset."""
    yield Older(
        "function",
        7,
        12,
        """g (float[2,3,4,4] x) => (y) { y = f.F (x) }
        <domain: "f", opset_import: ["": OPSET]> F (a) => (b) { s = Softmax <axis = 2> (a) b = ReduceSum <axes = [1]> (s) }""",
    )
    yield Older(
        "function with attributes",
        7,
        12,
        """g (float[2,3,4,4] x) => (y) { z = f.F <dims = [1], at = 2> (x) y = f.F <dims = [3], at = 1> (z) }
        <domain: "f", opset_import: ["": OPSET]> F <dims, at> (a) => (b)
        { s = Softmax <axis: int = @at> (a) b = ReduceSum <axes: ints = @dims> (s) }""",
    )
    yield Older(
        "function with modes",
        16,
        19,
        """g (float[2,3,4,4] x) => (y) <float[2,1,2,2] t = {-0.5, 0.1, 0.2, 0.7, 0.9, -0.3, 0, 1}>
        { y = f.F <how = "bilinear"> (x, t) }
        <domain: "f", opset_import: ["": OPSET]> F <how> (a, t) => (b) { b = GridSample <mode: string = @how> (a, t) }""",
        True,
    )


OLDER = {
    older.name: older
    for older in itertools.chain(_reductions(), _softmaxes(), _images(), _norms(), _moves(), _inner(), _functions())
}

# ---- models ----------------------------------------------------------------------------------------

NEIGHBOURS = ("none", "before", "unknown before", "behind", "beside", "behind a convolution", "in the default domain",
              "named as a newer one")  # fmt: skip
_FOREIGN = """<domain: "my", opset_import: ["": {opset}]> Op (a) => (b) {{ b = Neg (a) }}"""


def model_of(older: Older, opset: int, neighbour: str = "none") -> ModelProto:
    """The call as a model of this opset, with a foreign operator beside it.

    unknown before: the file declares no type of the foreign operator's result.
    """
    text = older.text.replace("OPSET", str(opset)).replace("'", '"')
    header = f'<ir_version: 8, opset_import: ["": {opset}, "f": 1]>\n' if "f.F" in text else (
        f'<ir_version: 8, opset_import: ["": {opset}]>\n'
    )  # fmt: skip
    model = parser.parse_model(header + text)
    for output in model.graph.output:
        if not output.type.WhichOneof("value"):
            output.type.tensor_type.elem_type = TensorProto.FLOAT
            output.type.ClearField("tensor_type")
    typed = onnx.shape_inference.infer_shapes(model)
    known = {info.name: info for info in (*typed.graph.value_info, *typed.graph.output)}
    for output in model.graph.output:
        output.type.CopyFrom(known[output.name].type)
    if neighbour != "none":
        _add_neighbour(model, neighbour)
    return model


def _add_neighbour(model: ModelProto, neighbour: str) -> None:
    graph = model.graph
    x, y = graph.input[0], graph.output[0]
    domain, op_type = ("", "MyOp_TRT") if neighbour == "in the default domain" else ("my", "Op")
    if neighbour == "named as a newer one":  # a plugin with the name of an operator that a later opset defines
        domain, op_type = "", "Mish" if opset_of(model) < 18 else "RMSNormalization"
    if domain:
        model.opset_import.add(domain=domain, version=1)
    call = lambda read, made: helper.make_node(op_type, [read], [made], domain=domain)  # noqa: E731
    if neighbour in ("before", "unknown before"):
        _renamed(graph.node, "x", "x_foreign")
        if neighbour == "before":
            graph.value_info.append(_info("x_foreign", x))
        nodes = [call("x", "x_foreign"), *graph.node]
    elif neighbour == "behind a convolution":  # so that layouts have something to do
        _renamed(graph.node, "x", "x_convolved")
        weight = np.random.default_rng(3).standard_normal((3, 3, 1, 1)).astype(np.float32)
        graph.initializer.append(numpy_helper.from_array(weight, "weight"))
        convolution = helper.make_node("Conv", ["x", "weight"], ["x_convolved"])
        nodes = [call("x", "z_foreign"), convolution, *graph.node]
        graph.output.append(_info("z_foreign", x))
    elif neighbour == "behind":
        nodes = [*graph.node, call(y.name, "z_foreign")]
        graph.output.append(_info("z_foreign", y))
    else:
        nodes = [call("x", "z_foreign"), *graph.node]
        graph.output.append(_info("z_foreign", x))
    copies = onnx.GraphProto(node=nodes)
    del graph.node[:]
    graph.node.extend(copies.node)


def _info(name: str, like: ValueInfoProto) -> ValueInfoProto:
    result = ValueInfoProto(name=name)
    result.type.CopyFrom(like.type)
    return result


def _renamed(nodes: list[NodeProto], old: str, new: str) -> None:
    for node in nodes:
        node.input[:] = [new if value == old else value for value in node.input]
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                _renamed(body.node, old, new)


def runnable(model: ModelProto) -> ModelProto:
    """The model with the foreign operator as a function, so that ONNX Runtime runs it: the same in any model."""
    result = ModelProto()
    result.CopyFrom(model)
    opset, foreign = opset_of(model), False
    for node in every_node(result):
        is_plugin = node.domain in ("", "ai.onnx") and not onnx.defs.has(node.op_type, opset, "")
        if is_plugin or node.domain == "my":
            node.domain, node.op_type, foreign = "my", "Op", True
    if foreign:
        if not any(entry.domain == "my" for entry in result.opset_import):
            result.opset_import.add(domain="my", version=1)
        result.functions.append(parser.parse_function(_FOREIGN.format(opset=opset)))
        result.ir_version = max(result.ir_version, 8)
    return result


def computed(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        runnable(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feeds)), strict=True))


def feeds_of(model: ModelProto) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    shapes = {info.name: [dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in model.graph.input}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


# ---- what must hold --------------------------------------------------------------------------------


def require_canonical(graph: Graph) -> None:
    """Each call of ONNX's domain has the form of the opset for which rules are written."""
    version = graph.opset_imports[""]
    for inner in graphs_within(graph, graph.functions):
        for node in inner.nodes:
            if node.domain or not onnx.defs.has(node.op_type, version, ""):
                continue
            assert is_valid_unchanged(node.op_type, version, OPSET), f"{node} is of opset {version}"
            schema = onnx.defs.get_schema(node.op_type, version, "")
            assert set(node.attributes) <= set(schema.attributes), f"{node} has {list(node.attributes)}"
            assert schema.min_input <= len(node.inputs) <= schema.max_input, f"{node} has {node.inputs}"


def require_kept(before: ModelProto, after: ModelProto) -> None:
    """What the file had is in the result: its opset, foreign operators, and what it declares of its outputs."""
    assert opset_of(after) >= opset_of(before), f"opset {opset_of(before)} became {opset_of(after)}"
    foreign = [
        sorted((node.domain, node.op_type) for node in model.graph.node if node.op_type in ("Op", "MyOp_TRT", "Mish"))
        for model in (before, after)
    ]
    nested = before.functions or any(node.op_type in ("If", "Loop", "Scan") for node in before.graph.node)
    assert nested or foreign[0] == foreign[1]  # what is inside may have been put in place of its call
    assert not any(opset_of_domain(entry.domain) for entry in after.opset_import)
    for one, other in zip(before.graph.output, after.graph.output, strict=True):
        dims = [
            [dim.dim_value if dim.HasField("dim_value") else None for dim in info.type.tensor_type.shape.dim]
            for info in (one, other)
        ]
        known = zip(*dims, strict=True) if one.type.tensor_type.HasField("shape") else ()
        assert all(size is None or size == now for size, now in known), f"{one.name}: {dims[0]} became {dims[1]}"


def require_equal(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> None:
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert array.shape == after[name].shape, f"{name} has the shape {after[name].shape}, not {array.shape}"
        np.testing.assert_allclose(after[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


def require_sound(model: ModelProto, how: Mapping[str, object], folder: Path, again: bool = True) -> Graph:
    """Optimize the model, and hold the result against it: through files, and once more."""
    feeds, sources = feeds_of(model), [folder / "first.onnx", folder / "second.onnx", folder / "third.onnx"]
    sources[0].write_bytes(model.SerializeToString())
    expected = computed(model, feeds)
    for source, target in itertools.pairwise(sources if again else sources[:2]):
        graph = wb.load(source)
        require_canonical(graph)
        after = wb.optimize(graph, verify="off", target="npu", **how).graph
        check(after)
        wb.export(after, target)
        written = onnx.load(target)
        require_kept(onnx.load(source), written)
        require_equal(expected, computed(written, feeds))
    return after


def pipelines() -> dict[str, dict[str, object]]:
    """Every preset, layout strategy and pass that needs no other package and no measurement, by a name."""
    result: dict[str, dict[str, object]] = {"nothing": {"passes": []}}
    result.update(
        (f"preset {name}", {"preset": name}) for name in library.presets() if "alias" not in library.presets()[name]
    )
    for name, strategy in library.compared_strategies().items():
        if not strategy.times_operators:
            result[f"layout {name}"] = {"passes": [], "layout": name}
    for name, cls in library.all_passes().items():
        known = type(cls()).__mro__
        tool = any(
            "Tool" in base.__name__ or "Precision" in base.__name__ or "Layout" in base.__name__ for base in known
        )
        if not tool and not cls.missing() and not cls.demonstration:
            result[f"pass {name}"] = {"passes": [name], "mode": "fast"}
    return result


def cases() -> Iterator[tuple[Older, int, str]]:
    for older in OLDER.values():
        for opset in range(older.first, older.last + 1):
            for neighbour in NEIGHBOURS:
                newest = opset > 22 and neighbour == "named as a newer one"
                flat = X not in older.text and neighbour == "behind a convolution"
                if not newest and not flat:
                    yield older, opset, neighbour


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", default="", help="calls whose names hold this text")
    arguments.add_argument("--pipelines", default="", help="pipelines whose names hold this text")
    arguments.add_argument("--part", default="0/1", help="i/n: every n-th case, from the i-th on")
    chosen = arguments.parse_args()
    part, parts = map(int, chosen.part.split("/"))
    hows = {name: how for name, how in pipelines().items() if chosen.pipelines in name}
    onnxruntime.set_default_logger_severity(4)
    started, runs, failures, unrun = time.perf_counter(), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for index, (older, opset, neighbour) in enumerate(cases()):
            if index % parts != part or chosen.only not in older.name:
                continue
            model = model_of(older, opset, neighbour)
            try:
                computed(model, feeds_of(model))
            except Exception as error:  # what ONNX Runtime does not run cannot be compared
                unrun += 1
                print(f"not run: {older.name}, opset {opset}, {neighbour}: {str(error)[:150]}")
                continue
            for name, how in hows.items():
                runs += 1
                try:
                    require_sound(model, how, Path(folder))
                except Exception as error:
                    failures += 1
                    print(
                        f"FAILED: {older.name}, opset {opset}, {neighbour}, {name}: {type(error).__name__}: {str(error)[:300]}",
                        flush=True,
                    )
    print(f"{runs:,} runs, {failures:,} failed, {unrun:,} cases not run, {time.perf_counter() - started:,.0f} s")


if __name__ == "__main__":
    main()
