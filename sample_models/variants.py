"""A channels-first network written in two other ways that compute the same: what layout strategies are measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from workbench.inference.shapes import infer_types
from workbench.ir import Constant, DataType, Graph, Node, TensorType, constant, constant_shape, lazy_constant
from workbench.ir.permutation import Permutation, channels_first, channels_last
from workbench.layout.infer import infer_layouts
from workbench.ops import NotPermutable, layout_of

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
    """Values are NHWC, and each operator that knows channels first only stands between two transposes.

    So a TensorFlow export looks. Inputs become NHWC; outputs stay as they are.
    """
    layouts = infer_layouts(graph)
    images = {v for v, layout in layouts.items() if layout == "NCHW" and v not in graph.constants}
    constants = dict(graph.constants)
    nodes = [new for node in graph.nodes for new in _in_nhwc(graph, node, images, constants)]
    for value in images.intersection(graph.outputs):
        maker = next(i for i, node in enumerate(nodes) if value in node.outputs)
        nodes[maker] = nodes[maker].replace(outputs=_renamed(nodes[maker].outputs, {value: f"{value}_nhwc"}))
        nodes = [node.with_values_renamed({value: f"{value}_nhwc"}) for node in nodes]
        nodes.append(_transpose(f"{value}_nhwc", value, TO_FIRST))
    permuted = {v: t.permuted(TO_LAST) for v in images.intersection(graph.inputs) if (t := graph.tensor_type(v))}
    return _built(graph, nodes, constants, permuted)


def _in_nhwc(graph: Graph, node: Node, images: set[str], constants: dict[str, Constant]) -> Sequence[Node]:
    """The operator on NHWC values, between transposes where it knows channels first only."""
    own = images.intersection((*node.inputs, *node.outputs))
    if not own:
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
            plain = carried.op_type is None and not carried.lined_up
            if plain and all(perm in (None, TO_LAST) for perm in carried.outputs):
                attributes = node.attributes if carried.attributes is None else carried.attributes
                return (node.replace(inputs=tuple(inputs), attributes=attributes),)
    first = {value: f"{value}_nchw_{node.name}" for value in own}
    there = [_transpose(v, first[v], TO_FIRST) for v in dict.fromkeys(node.inputs) if v in own]
    back = [_transpose(first[v], v, TO_LAST) for v in node.outputs if v in own]
    inner = node.replace(inputs=_renamed(node.inputs, first), outputs=_renamed(node.outputs, first))
    return (*there, inner, *back)


def mixed_layouts(graph: Graph) -> Graph:
    """Each convolution with a 1x1 kernel and stride 1 is a MatMul on NHWC values, as ConvNeXt is written."""
    constants = dict(graph.constants)
    nodes = [new for node in graph.nodes for new in _as_matmul(graph, node, constants)]
    return _built(graph, nodes, constants, {})


def _as_matmul(graph: Graph, node: Node, constants: dict[str, Constant]) -> Sequence[Node]:
    weight = graph.constant(node.inputs[1]) if node.op == "Conv" else None
    if weight is None or constant_shape(weight)[2:] != (1, 1) or node.attr("group", 1) != 1:
        return (node,)
    if any(s != 1 for s in node.attr("strides", ())) or any(node.attr("pads", ())):
        return (node,)
    outputs, inputs = constant_shape(weight)[:2]
    x, last, product = node.inputs[0], f"{node.inputs[0]}_for_{node.name}", f"{node.name}_product"
    constants[f"{node.name}_matrix"] = lazy_constant(
        lambda: np.ascontiguousarray(weight.numpy().reshape(outputs, inputs).T), weight.dtype, (inputs, outputs)
    )
    made = [
        _transpose(x, last, TO_LAST),
        Node("MatMul", (last, f"{node.name}_matrix"), (product,), name=f"{node.name}_matmul"),
    ]
    if len(node.inputs) > 2:
        biased = f"{node.name}_biased"
        made.append(Node("Add", (product, node.inputs[2]), (biased,), name=f"{node.name}_bias"))
        product = biased
    return (*made, _transpose(product, node.outputs[0], TO_FIRST))


def _transpose(source: str, result: str, perm: Permutation) -> Node:
    return Node("Transpose", (source,), (result,), {"perm": perm}, name=f"{source}_to_{result}")


def _renamed(values: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(value, value) for value in values)


def _built(graph: Graph, nodes: Sequence[Node], constants: Mapping[str, Constant], types: Mapping) -> Graph:
    read = {value for node in nodes for value in node.operands}
    ends = {v: t for v in (*graph.inputs, *graph.outputs) if (t := graph.type(v)) is not None}
    made = Graph(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        nodes=nodes,
        constants={name: tensor for name, tensor in constants.items() if name in read},
        types={**ends, **types},
        opset_imports=graph.opset_imports,
        functions=graph.functions,
    )
    inferred = infer_types(made)
    return Graph(
        name=made.name,
        inputs=made.inputs,
        outputs=made.outputs,
        nodes=nodes,
        constants=made.constants,
        types={**inferred, **made.types},
        opset_imports=made.opset_imports,
        functions=made.functions,
    )


def residual_chain(blocks: int, channels: int = 4, size: int = 8) -> Graph:
    """Residual blocks: of three, one has a convolution, two have a MatMul on NHWC values between two transposes."""
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
