"""Transformations of a channels-first network that keep its results, to measure layout strategies on."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np

from workbench.analysis.inference.shapes import infer_types
from workbench.ir import Constant, DataType, Graph, Node, TensorType, constant, constant_shape, lazy_constant
from workbench.ir.permutation import Permutation, channels_first, channels_last, inverse
from workbench.ops import NotPermutable, layout_of
from workbench.planning.layout.infer import infer_layouts

TO_LAST, TO_FIRST = channels_last(4), channels_first(4)
KEEP_CHANNELS_FIRST = frozenset(
    {
        "Conv",
        "ConvTranspose",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "LRN",
        "BatchNormalization",
        "Reshape",
    }
)


def nhwc_dataflow(graph: Graph) -> Graph:
    """The graph with NHWC values, and two transposes around each operator that needs channels first.

    Exports of TensorFlow have this form. Inputs become NHWC; outputs keep their layout.
    """
    layouts = infer_layouts(graph)
    images = {v for v, layout in layouts.items() if layout == "NCHW" and v not in graph.constants}
    constants = dict(graph.constants)
    nodes = [new for node in graph.nodes for new in _in_nhwc(graph, node, images, constants)]
    for value in images.intersection(graph.outputs):
        producer = next(i for i, node in enumerate(nodes) if value in node.outputs)
        nodes[producer] = nodes[producer].replace(outputs=_renamed(nodes[producer].outputs, {value: f"{value}_nhwc"}))
        nodes = [node.with_values_renamed({value: f"{value}_nhwc"}) for node in nodes]
        nodes.append(_transpose(f"{value}_nhwc", value, TO_FIRST))
    permuted = {v: t.permuted(TO_LAST) for v in images.intersection(graph.inputs) if (t := graph.tensor_type(v))}
    return _built(graph, nodes, constants, permuted)


def _in_nhwc(graph: Graph, node: Node, images: set[str], constants: dict[str, Constant]) -> Sequence[Node]:
    """The nodes for the operator on NHWC values, with transposes if it needs channels first."""
    image_values = images.intersection((*node.inputs, *node.outputs))
    if not image_values:
        return (node,)
    if node.op not in KEEP_CHANNELS_FIRST:
        try:
            carried = layout_of(node).propagate_permutation(graph, node, TO_LAST)
        except NotPermutable:
            pass
        else:
            inputs = list(node.inputs)
            for index, tensor in carried.constants.items():
                inputs += [""] * (index + 1 - len(inputs))
                inputs[index] = f"{node.name}_{index}_nhwc"
                constants[inputs[index]] = tensor
            keeps_operator = carried.op_type is None and not carried.aligned_inputs
            if keeps_operator and all(perm in (None, TO_LAST) for perm in carried.outputs):
                attributes = node.attributes if carried.attributes is None else carried.attributes
                return (node.replace(inputs=tuple(inputs), attributes=attributes),)
    nchw_names = {value: f"{value}_nchw_{node.name}" for value in image_values}
    to_nchw = [_transpose(v, nchw_names[v], TO_FIRST) for v in dict.fromkeys(node.inputs) if v in image_values]
    to_nhwc = [_transpose(nchw_names[v], v, TO_LAST) for v in node.outputs if v in image_values]
    inner = node.replace(inputs=_renamed(node.inputs, nchw_names), outputs=_renamed(node.outputs, nchw_names))
    return (*to_nchw, inner, *to_nhwc)


def mixed_layouts(graph: Graph) -> Graph:
    """The graph with each convolution of a 1x1 kernel and stride 1 as a MatMul on NHWC values, as in ConvNeXt."""
    constants = dict(graph.constants)
    nodes = [new for node in graph.nodes for new in _as_matmul(graph, node, constants)]
    return _built(graph, nodes, constants, {})


def wrapped(graph: Graph, seed: int = 0) -> Graph:
    """The graph with a Transpose to a random order, and the one back, behind a third of its values of two axes or more.

    Without them it computes the same, so that the least that Transposes move is no more than before.
    """
    draw, nodes = random.Random(seed), []
    for node in graph.nodes:
        ends = [v for v in node.outputs if v and len(graph.shape(v) or ()) > 1 and draw.random() < 1 / 3]
        nodes.append(node.replace(outputs=_renamed(node.outputs, {value: f"{value}_before" for value in ends})))
        for value in ends:
            perm = tuple(draw.sample(range(len(graph.shape(value) or ())), len(graph.shape(value) or ())))
            nodes.append(_transpose(f"{value}_before", f"{value}_turned", perm))
            nodes.append(_transpose(f"{value}_turned", value, inverse(perm)))
    return _built(graph, nodes, graph.constants, {})


def _as_matmul(graph: Graph, node: Node, constants: dict[str, Constant]) -> Sequence[Node]:
    weight = graph.constant(node.inputs[1]) if node.op == "Conv" else None
    if weight is None or constant_shape(weight)[2:] != (1, 1) or node.attr("group", 1) != 1:
        return (node,)
    if any(s != 1 for s in node.attr("strides", ())) or any(node.attr("pads", ())):
        return (node,)
    outputs, inputs = constant_shape(weight)[:2]
    x, nhwc, product = node.inputs[0], f"{node.inputs[0]}_for_{node.name}", f"{node.name}_product"
    constants[f"{node.name}_matrix"] = lazy_constant(
        lambda: np.ascontiguousarray(weight.numpy().reshape(outputs, inputs).T), weight.dtype, (inputs, outputs)
    )
    new_nodes = [
        _transpose(x, nhwc, TO_LAST),
        Node("MatMul", (nhwc, f"{node.name}_matrix"), (product,), name=f"{node.name}_matmul"),
    ]
    if len(node.inputs) > 2:
        biased = f"{node.name}_biased"
        new_nodes.append(Node("Add", (product, node.inputs[2]), (biased,), name=f"{node.name}_bias"))
        product = biased
    return (*new_nodes, _transpose(product, node.outputs[0], TO_FIRST))


def _transpose(source: str, result: str, perm: Permutation) -> Node:
    return Node("Transpose", (source,), (result,), {"perm": perm}, name=f"{source}_to_{result}")


def _renamed(values: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(value, value) for value in values)


def _built(graph: Graph, nodes: Sequence[Node], constants: Mapping[str, Constant], types: Mapping) -> Graph:
    read = {value for node in nodes for value in node.operands}
    ends = {v: t for v in (*graph.inputs, *graph.outputs) if (t := graph.type(v)) is not None}
    untyped = Graph(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        nodes=nodes,
        constants={name: tensor for name, tensor in constants.items() if name in read},
        types={**ends, **types},
        opset_imports=graph.opset_imports,
        functions=graph.functions,
    )
    inferred = infer_types(untyped)
    return Graph(
        name=untyped.name,
        inputs=untyped.inputs,
        outputs=untyped.outputs,
        nodes=nodes,
        constants=untyped.constants,
        types={**inferred, **untyped.types},
        opset_imports=untyped.opset_imports,
        functions=untyped.functions,
    )


def residual_chain(blocks: int, channels: int = 4, size: int = 8) -> Graph:
    """Residual blocks; one of three has a convolution, two have a MatMul on NHWC values between two transposes."""
    rng = np.random.default_rng(0)
    constants: dict[str, Constant] = {}
    nodes: list[Node] = []
    value = "x"
    for block in range(blocks):
        relu, point, total = f"relu_{block}", f"point_{block}", f"sum_{block}"
        square = (channels, channels) if block % 3 else (channels, channels, 1, 1)
        constants[f"w_{block}"] = constant(rng.standard_normal(square).astype(np.float32) / 4)
        nodes.append(Node("Relu", (value,), (relu,), name=relu))
        if block % 3:
            last, product = f"last_{block}", f"product_{block}"
            nodes.append(_transpose(relu, last, TO_LAST))
            nodes.append(Node("MatMul", (last, f"w_{block}"), (product,), name=product))
            nodes.append(_transpose(product, point, TO_FIRST))
        else:
            nodes.append(Node("Conv", (relu, f"w_{block}"), (point,), name=point))
        nodes.append(Node("Add", (point, value), (total,), name=total))
        value = total
    image = TensorType(DataType.FLOAT, (1, channels, size, size))
    ends = Graph(inputs=("x",), outputs=(value,), types={"x": image, value: image}, opset_imports={"": 23})
    return _built(ends, nodes, constants, {})
