"""The layout of every value: CNN, with the order of its axes, or Tensor.

Layout-sensitive operators such as convolutions and pools determine the layout of
their operands; operators that keep the axes propagate it forward and backward; a
Transpose reorders it. All other values are Tensors, whose axes have no known meaning.
Source: the CNN and Tensor types of LayoutPresetToNPU; InferCorrectLayout of TVM's ConvertLayout (docs/references.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from workbench.analysis.inference.called_functions import called_function, with_bodies_of_calls
from workbench.errors import UserError
from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, inverse, perm_of, permuted
from workbench.ops import layout_of
from workbench.ops.blocked import Blocked, parse_blocked
from workbench.ops.channels_last import FUSED_CONVOLUTIONS, IMAGES, LAYOUT_NAMES, OWN_SIGNATURES, parse_channels_last
from workbench.ops.permutation.kinds import ALL_OPERANDS, FIRST_OPERAND
from workbench.ops.permutation.reshaping import groups_of
from workbench.planning.layout.declared import DECLARED, declared_layouts, layouts_of_rank

TENSOR = "Tensor"
CNN_TO_CNN = "case 1, CNN to CNN"
CNN_TO_TENSOR = "case 2, CNN to Tensor"
TENSOR_TO_CNN = "case 3, Tensor to CNN"
TENSOR_TO_TENSOR = "case 4, Tensor to Tensor"
# Channels first and last; also of images whose channels are split into groups.
PAIRS = (*LAYOUT_NAMES.values(), ("NGCHW", "NHWGC"), ("NCGHW", "NHWCG"))
_AFTER_RESHAPE = {  # axes of a group, number of axes it becomes -> names of the new axes
    **{(letter, 1): letter for letter in "NCHWD"},
    ("C", 2): "GC",
    ("GC", 1): "C",
    ("CG", 1): "C",
    ("HW", 1): "W",
}
_WEIGHTED = {"Conv": "OI", "ConvTranspose": "IO", "BPA": "OI", **dict.fromkeys(FUSED_CONVOLUTIONS, "OI")}
_BLOCKED = "NCHWc"  # internally one letter per axis; in public names the length of c is included, "NCHW8c"


def infer_layouts(graph: Graph, *, through_reshapes: bool = False) -> dict[str, str]:
    """Layout by value: "NCHW", "NHWC", "NCHW8c", "OIHW", ... or "Tensor".

    through_reshapes: propagate through a Reshape that splits the channels into groups or merges the spatial axes;
    its result is then "NGCHW" or "NCW". (In LayoutPresetToNPU it is a Tensor.)
    """
    if any(called_function(graph, node) for node in graph.nodes if graph.functions):
        with_bodies = infer_layouts(with_bodies_of_calls(graph, graph.nodes), through_reshapes=through_reshapes)
        return {value: with_bodies.get(value, TENSOR) for value in graph.values()}
    layouts = declared_layouts(graph)
    waiting = [*layouts, *(name for node in graph.nodes for name in _seed(graph, node, layouts))]
    while waiting:
        value = waiting.pop()
        neighbours = [*graph.users(value), *filter(None, [graph.producer(value)])]
        for node in neighbours:
            waiting.extend(_propagate(graph, node, layouts))
            if node.op == "Reshape":
                waiting.extend(_through_blocking(graph, node, layouts))
            if through_reshapes and node.op == "Reshape":
                waiting.extend(_through_reshape(graph, node, layouts))
    return {value: _with_block(graph, value, layouts.get(value, TENSOR)) for value in graph.values()}


def declare(graph: Graph, layouts: Mapping[str, str]) -> None:
    """Declare the layouts of inputs in the graph's metadata; Tensor removes a declaration.

    Raises UserError for a layout that does not fit, and then changes nothing.
    """
    if not layouts:
        return
    inferred, declared = infer_layouts(graph), declared_layouts(graph)
    for value, layout in layouts.items():
        if not graph.is_input(value):
            raise UserError(f"the model has no input '{value}'; it has {', '.join(graph.inputs) or 'none'}")
        fitting = layouts_of_rank(graph.rank_of(value))
        if layout not in (*fitting, TENSOR):
            may = f"it can be {', '.join(fitting)}" if fitting else "its axes have no layout"
            raise UserError(f"input '{value}' of {graph.tensor_type(value)} cannot be {layout or 'without one'}; {may}")
        known = inferred.get(value, TENSOR)
        if known not in (TENSOR, layout) and value not in declared:
            raise UserError(f"input '{value}' is {known}, as the operators that read it say; it cannot be {layout}")
    for value, layout in layouts.items():
        graph.metadata.pop(DECLARED + value, None)
        if layout != TENSOR:
            graph.metadata[DECLARED + value] = layout


def infer_near(graph: Graph, nodes: Iterable[Node], known: Mapping[str, str]) -> dict[str, str]:
    """Layouts of the operands and results of a few nodes, from the known layouts of other values.

    For the moments within a step: inferring the layouts of the whole graph after each rewrite would be too slow.
    """
    original = nodes = list(nodes)
    if any(called_function(graph, node) for node in nodes):
        graph = with_bodies_of_calls(graph, nodes)
        nodes = list(graph.nodes)
    seen = {value: known[value] for node in nodes for value in node.operands if is_cnn(known.get(value, TENSOR))}
    layouts = {value: _without_block(layout) for value, layout in seen.items()}
    for node in (*nodes, *nodes):  # twice, since a node may come before the producer of its operand
        for propagate in (_seed, _propagate):
            for _ in propagate(graph, node, layouts):
                pass
    return {
        v: _with_block(graph, v, layouts.get(v, TENSOR)) for node in original for v in (*node.operands, *node.outputs)
    }


def _with_block(graph: Graph, value: str, layout: str) -> str:
    """ "NCHW8c" for "NCHWc"."""
    shape = graph.shape(value)
    block = shape[layout.index("c")] if shape is not None and "c" in layout else None
    return layout.replace("c", f"{block}c") if isinstance(block, int) else layout


def _without_block(layout: str) -> str:
    """ "NCHWc" for "NCHW8c"."""
    return "".join(letter for letter in layout if not letter.isdigit())


def _seed(graph: Graph, node: Node, layouts: dict[str, str]) -> Iterator[str]:
    """Enter the layouts that a layout-sensitive operator gives its operands and results; yields those values."""
    blocked = parse_blocked(node.domain, node.op_type)
    if blocked is not None:
        yield from _seed_blocked(graph, node, blocked, layouts)
        return
    last = parse_channels_last(node.domain, node.op_type)
    op_type = node.op_type if last is None else last.op_type
    if last is None and layout_of(node).kind != "sensitive":
        return
    signature = OWN_SIGNATURES.get(op_type)
    images = IMAGES.get(op_type, (0,)) if signature is None else signature.images
    results = node.outputs if signature is None or signature.gives_image else ()
    for value in (*(node.inputs[i] for i in images if i < len(node.inputs)), *results):
        rank = graph.rank_of(value)
        names = LAYOUT_NAMES.get(rank or 0)
        if names is not None and value and value not in layouts:
            layouts[value] = names[0 if last is None else 1]
            yield value
    if op_type == "BPW" and node.outputs[0] not in layouts:
        layouts[node.outputs[0]] = "OIHW" if last is None or last.weights is None else last.weights
        yield node.outputs[0]
    if op_type in _WEIGHTED and len(node.inputs) > 1:
        rank = graph.rank_of(node.inputs[1])
        spatial = {3: "W", 4: "HW", 5: "DHW"}.get(rank or 0, "")
        if spatial:
            default_order = _WEIGHTED[op_type] + spatial
            stored = default_order if last is None or last.weights is None else last.weights.replace("HW", spatial)
            if node.inputs[1] not in layouts:
                layouts[node.inputs[1]] = stored
                yield node.inputs[1]


def _seed_blocked(graph: Graph, node: Node, blocked: Blocked, layouts: dict[str, str]) -> Iterator[str]:
    source = "NCHW" if blocked.reads_nchw else _BLOCKED
    entries = [*((value, source) for value in node.inputs[:1]), *((value, _BLOCKED) for value in node.outputs[:1])]
    for value, layout in entries:
        if value not in layouts and graph.rank_of(value) == len(layout):
            layouts[value] = layout
            yield value
    if blocked.op_type == "Conv" and len(node.inputs) > 1:
        layouts.setdefault(node.inputs[1], "OIHW")


def _propagate(graph: Graph, node: Node, layouts: dict[str, str]) -> Iterator[str]:
    if node.op == "Transpose":
        yield from _through_transpose(graph, node, layouts)
        return
    if layout_of(node).kind not in ("agnostic", "remapped"):
        return
    yield from _through_dropped_axes(graph, node, layouts)
    tied = values_of_same_axes(graph, node)
    known = next((layouts[v] for v in tied if v in layouts), None)
    if known is None:
        return
    for value in tied:
        if value not in layouts and graph.rank_of(value) == len(known):
            layouts[value] = known
            yield value


def _through_reshape(graph: Graph, node: Node, layouts: dict[str, str]) -> Iterator[str]:
    """Propagate forward where channels are split into groups or joined, or spatial axes merged."""
    known, result = layouts.get(node.inputs[0]), node.outputs[0]
    groups = None if known is None or result in layouts else groups_of(graph, node)
    if known is None or groups is None or len(known) != sum(len(group.operand) for group in groups):
        return
    names = []
    for group in groups:
        letters = "".join(known[axis] for axis in group.operand)
        names.append(_AFTER_RESHAPE.get((letters, len(group.result)), "?"))
    layout = "".join(names)
    if any(layout in pair for pair in PAIRS):
        layouts[result] = layout
        yield result


def _through_blocking(graph: Graph, node: Node, layouts: dict[str, str]) -> Iterator[str]:
    """From a blocked image to one of four axes, or back: the layout with the same order in memory."""
    for known, other in ((node.inputs[0], node.outputs[0]), (node.outputs[0], node.inputs[0])):
        shape, blocked_layout = graph.shape(known), layouts.get(known, "")
        if "c" not in blocked_layout or other in layouts or graph.rank_of(other) != 4 or shape is None:
            continue
        ones = {letter for letter, dim in zip(blocked_layout, shape, strict=True) if dim == 1}
        order = [letter for letter in blocked_layout if letter not in ones]
        for plain_layout in LAYOUT_NAMES[4]:
            if [letter for letter in plain_layout.replace("C", "Cc") if letter not in ones] == order:
                layouts[other] = plain_layout
                yield other
                break


def _through_dropped_axes(graph: Graph, node: Node, layouts: dict[str, str]) -> Iterator[str]:
    """Propagate through Squeeze and Reduce without keepdims: the remaining axes keep their names."""
    drops = node.op == "Squeeze" or (node.op.startswith("Reduce") and node.attr("keepdims") != 1)
    known = layouts.get(node.inputs[0]) if drops else None
    axes = graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    result = node.outputs[0]
    if known is None or axes is None or result in layouts:
        return
    removed = {int(axis) % len(known) for axis in axes.numpy().reshape(-1)}
    remaining = "".join(letter for axis, letter in enumerate(known) if axis not in removed)
    if remaining in LAYOUT_NAMES.get(len(remaining), ()):
        layouts[result] = remaining
        yield result


def values_of_same_axes(graph: Graph, node: Node) -> tuple[str, ...]:
    """Computed operands and results with the same axes: those of the result's rank."""
    rank = graph.rank_of(node.outputs[0])
    if rank is None or rank != max((graph.rank_of(v) or 0 for v in node.inputs if v), default=0):
        return ()
    operands = {ALL_OPERANDS: node.inputs, FIRST_OPERAND: node.inputs[:1]}.get(layout_of(node).shares)
    if operands is None:
        return ()
    values = (*operands, *node.outputs)
    return tuple(v for v in values if v and v not in graph.constants and graph.rank_of(v) == rank)


def _through_transpose(graph: Graph, node: Node, layouts: dict[str, str]) -> Iterator[str]:
    perm = perm_of(graph, node)
    source, result = node.inputs[0], node.outputs[0]
    if perm is None or source in graph.constants:
        return
    if source in layouts and result not in layouts and len(layouts[source]) == len(perm):
        layouts[result] = "".join(permuted(layouts[source], perm))
        yield result
    elif result in layouts and source not in layouts and len(layouts[result]) == len(perm):
        layouts[source] = "".join(permuted(layouts[result], inverse(perm)))
        yield source


def perm_between(source: str, target: str) -> Permutation:
    """The permutation of a Transpose from one layout to another of the same axes."""
    return tuple(source.index(axis) for axis in target)


def case_of(node: Node, layouts: Mapping[str, str]) -> str:
    """Which of LayoutPresetToNPU's four cases applies to the node."""
    reads_cnn = any(is_cnn(layouts.get(v, TENSOR)) for v in node.inputs if v)
    gives_cnn = any(is_cnn(layouts.get(v, TENSOR)) for v in node.outputs if v)
    if reads_cnn:
        return CNN_TO_CNN if gives_cnn else CNN_TO_TENSOR
    return TENSOR_TO_CNN if gives_cnn else TENSOR_TO_TENSOR


def is_cnn(layout: str) -> bool:
    """Whether it is the layout of a CNN value, not of a weight or Tensor."""
    return "N" in layout
