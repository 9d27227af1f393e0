"""The style of a node's box: its text and what its colours depend on; and the labels of edges."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.analysis.metrics.nodes import count_nodes
from workbench.analysis.metrics.transpose_cost import element_bytes, moved_by_node
from workbench.ir import DataType, Graph, Node
from workbench.ir.permutation import perm_of
from workbench.ir.types import numpy_name
from workbench.ops import contract_of
from workbench.ops.blocked import block_of
from workbench.planning.layout.classes import HEAVILY, LAYOUT_AGNOSTIC, LIGHTLY, class_of
from workbench.planning.layout.infer import TENSOR, is_cnn
from workbench.planning.layout.profile import Profile
from workbench.presentation.view.quantization import quantization_of_node, quantization_of_value

OWN, TARGET, PLAIN = 0, 1, 2  # kinds of layout: the model's own, the target's, Tensor
NO_KIND = -1
CLASSES = (LAYOUT_AGNOSTIC, LIGHTLY, HEAVILY)
# On edges of any graph: floats other than float32, and the types of quantized numbers.
_NAMED_TYPES = ("double", "float16", "bfloat16", "int8", "uint8")
_NAMED_KINDS = ("float8", "float4", "int4", "uint4", "int2", "uint2")  # with what the names of such types begin
_OTHER = "other"  # category of an operator without a contract
_MAX_NAME = 34  # characters of a name in a box; the inspector has the whole name


@dataclass(frozen=True)
class NodeStyle:
    """The style of a node at a moment.

    op, name, detail: the lines of its box.
    layout:   kind of layout of its first result. weights: of its weights, or NO_KIND.
    category, klass: of its operator, or "".
    step:     the step that produced this version.
    fused:    the nodes from which it was fused, or the fused group that it is in, as text; or "".
    result_layout: of its first result, as text, such as "NCHW"; "" of what has no layout.
    element_type: of its first result, such as "float16"; "" if unknown.
    """

    op: str
    name: str
    detail: str
    layout: int
    weights: int
    category: str
    klass: str
    step: int = 0
    fused: str = ""
    result_layout: str = ""
    element_type: str = ""

    def report(self, categories: list[str], types: list[str]) -> dict[str, Any]:
        """The style as sent to the browser. categories, types: its category and element type are added if missing."""
        for name, names in ((self.category, categories), (self.element_type, types)):
            if name and name not in names:
                names.append(name)
        return {
            "op": self.op,
            "name": self.name,
            "d": self.detail,
            "l": self.layout,
            "w": self.weights,
            "k": categories.index(self.category) if self.category else -1,
            "c": CLASSES.index(self.klass) if self.klass else -1,
            "p": self.step,
            "f": self.fused,
            "x": self.result_layout,
            "t": types.index(self.element_type) if self.element_type else -1,
        }


def style_of(
    graph: Graph,
    node: Node,
    layouts: Mapping[str, str],
    target: Profile,
    step: int = 0,
    fused: str = "",
    group: str = "",
) -> NodeStyle:
    """The style of a node. layouts: by value. group: the fused group that computes the node, or ""."""
    layout = layouts.get(node.outputs[0], TENSOR) if node.outputs else TENSOR
    weights = _weights(graph, node, layouts)
    contract = contract_of(node)
    detail, group_text = _detail(graph, node, layout, weights, layouts), f"in {group}" if group else ""
    return NodeStyle(
        op=shown_op(node),
        name="" if node.op == node.name else shortened_name(_without_scopes(node.name)),
        detail=f"{detail}, {group_text}" if group_text else detail,
        layout=box_kind_of(layout, target),
        weights=NO_KIND if not weights else box_kind_of(weights, target),
        category=_OTHER if contract is None else contract.category,
        klass=class_of(node, target),
        step=step,
        fused=group_text or fused,
        result_layout=layout,
        element_type=element_type_text(graph, node.outputs[0]) if node.outputs else "",
    )


def result_layouts(graph: Graph, node: Node, layouts: Mapping[str, str]) -> tuple[str, ...]:
    """The layouts of the node's results, and of its weights if it has any, each once."""
    layouts_of_results = [layouts.get(value, TENSOR) for value in node.outputs if value]
    return tuple(dict.fromkeys(filter(None, [*layouts_of_results, _weights(graph, node, layouts)])))


def constant_style(graph: Graph, value: str, layouts: Mapping[str, str], target: Profile) -> NodeStyle:
    """The style of a constant's box."""
    layout = layouts.get(value, TENSOR)
    kind = box_kind_of(layout, target)
    text = f"{shape_text(graph, value)} {'' if layout == TENSOR else layout}".strip()
    name, type_ = shortened_name(value), element_type_text(graph, value)
    return NodeStyle("constant", name, text or "scalar", kind, NO_KIND, "constant", "", element_type=type_)


def box_kind_of(layout: str, target: Profile) -> int:
    """The kind of a layout: OWN, TARGET or PLAIN."""
    if is_of_weights(layout):
        return TARGET if layout == target.weights_for("Conv") != "OIHW" else OWN
    if not is_cnn(layout):
        return PLAIN
    target_layout = target.layout if block_of(target.layout) else target.layout_for(len(layout))
    return TARGET if layout == target_layout else OWN


def are_of_target(kinds: Collection[int]) -> bool:
    """Whether results of these kinds of layout begin in the target's, which is then the model's own."""
    return TARGET in kinds and OWN not in kinds


def coloured_kind(kind: int, is_own: bool) -> int:
    """The kind whose colour a layout has. is_own: whether the model's own layout is the target's."""
    return OWN if is_own and kind == TARGET else kind


def is_of_weights(layout: str) -> bool:
    """Whether it is a layout of weights, such as "OIHW"; layouts of activations begin with N or C."""
    return layout.startswith(("O", "I", "H"))


def value_text(graph: Graph, value: str, layouts: Mapping[str, str]) -> str:
    """The label of an edge, such as "1x3x224x224 NCHW float16", with symbolic dims bound; an unknown size is "?".

    An element type is named if it is a float other than float32, which is that of most values, or of 8 bits or fewer;
    then with scale and zero point, if the value is quantized.
    """
    layout = layouts.get(value, TENSOR)
    named = layout if is_cnn(layout) or is_of_weights(layout) else ""
    type_ = element_type_text(graph, value)
    type_ = type_ if is_always_named(type_) else ""
    quantized = quantization_of_value(graph, value) if type_ else None
    return " ".join(filter(None, (shape_text(graph, value), named, type_ if quantized is None else quantized.short)))


def is_always_named(type_: str) -> bool:
    """Whether the label of an edge names this element type in any graph."""
    return type_ in _NAMED_TYPES or type_.startswith(_NAMED_KINDS)


def element_type_text(graph: Graph, value: str) -> str:
    """The value's element type as numpy names it: "float32", "bool"; "" if it is unknown."""
    type_ = graph.tensor_type(value)
    return "" if type_ is None or type_.dtype == DataType.UNDEFINED else numpy_name(type_.dtype)


def shape_text(graph: Graph, value: str) -> str:
    """The value's shape, such as "1x3x224x224", with symbolic dims bound; "" if its rank is unknown."""
    type_ = graph.tensor_type(value)
    shape = bound_shape(graph, value) or (None if type_ is None else type_.shape)
    if not shape:
        return ""
    return "x".join(str(d if isinstance(d, int) else graph.dims.get(str(d), "?")) for d in shape)


def shown_op(node: Node) -> str:
    """The operator as written in a box, without the domain "workbench"."""
    return shortened_name(node.op.removeprefix("workbench."))


def fusion_label(removed: tuple[Node, ...], inserted: tuple[Node, ...]) -> str:
    """A label such as "made of Conv and BatchNormalization"; "" unless several nodes became fewer."""
    if len(removed) < 2 or not inserted or len(inserted) >= len(removed):
        return ""
    ops = [node.op.removeprefix("workbench.") for node in removed]
    counted = [f"{len(list(group))} {op}" if ops.count(op) > 1 else op for op, group in itertools.groupby(sorted(ops))]
    return f"made of {', '.join(counted[:-1])} and {counted[-1]}"


def _without_scopes(name: str) -> str:
    """The last part of a name such as "/layer1/conv1/Conv", or of a long one; the inspector has all of it."""
    last = name.rpartition("/")[2]
    return last if (name.startswith("/") or len(name) > _MAX_NAME) and last.strip() else name


def shortened_name(name: str, limit: int = _MAX_NAME) -> str:
    """The name; the middle of a long name is left out."""
    return name if len(name) <= limit else f"{name[: limit // 2 - 1]}...{name[-(limit // 2 - 2) :]}"


def _size_text(size: float) -> str:
    """Bytes as written in a box."""
    return f"{size / 1e6:,.2f} MB" if size >= 1e4 else f"{size:,.0f} B"


def _weights(graph: Graph, node: Node, layouts: Mapping[str, str]) -> str:
    """The layout of the node's weights, or ""."""
    operand_layouts = (layouts.get(value, "") for value in node.inputs[1:2])
    return next((layout for layout in operand_layouts if is_of_weights(layout)), "")


def _detail(graph: Graph, node: Node, layout: str, weights: str, layouts: Mapping[str, str]) -> str:
    if node.op == "Transpose":
        return _transpose(graph, node, layout, layouts)
    if node.op == "Cast":
        return " to ".join(filter(None, (element_type_text(graph, v) for v in (node.inputs[0], node.outputs[0]))))
    if (quantized := quantization_of_node(graph, node)) is not None:
        return quantized.short
    if node.bodies:
        return f"{layout}, {sum(count_nodes(body) for body in node.bodies.values()):,} nodes inside"
    return f"{layout}, weights {weights}" if weights else layout


def _transpose(graph: Graph, node: Node, layout: str, layouts: Mapping[str, str]) -> str:
    """Layouts, permutation and moved bytes of a Transpose, such as "NCHW to NHWC [0,2,3,1] 3.21 MB"."""
    perm = ",".join(map(str, perm_of(graph, node) or ()))
    source = layouts.get(node.inputs[0], TENSOR)
    moved_elements = moved_by_node(graph, node)
    size = "? B" if moved_elements is None else _size_text(moved_elements * element_bytes(graph, node.inputs[0]))
    transposed = f"{source} to {layout} " if is_cnn(layout) and is_cnn(source) else ""
    return f"{transposed}[{perm}] {size}"
