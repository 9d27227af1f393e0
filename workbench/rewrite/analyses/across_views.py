"""Two changes of shape that meet, or have elementwise operators between them, and the rewrite that merges them."""

from __future__ import annotations

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, TensorType, constant, constant_shape
from workbench.ir.permutation import moves_data
from workbench.rewrite.analyses.reshapes import VIEWS, shape_operand
from workbench.rewrite.core.guards import is_same_shape, permutation, require_producer, require_single_use
from workbench.rewrite.core.rule import NoMatch, Rewrite

_ELEMENTWISE = (
    *("Abs", "Cast", "Ceil", "Clip", "Floor", "Neg", "Not", "Relu", "Round", "Sign", "Sqrt", "Reciprocal"),
    *("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"),
    *("Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Selu", "Sigmoid"),
    *("Softplus", "Softsign", "Swish", "Tanh", "Sin", "Cos"),
)
_MAX_NODES = 8  # nodes between two changes of shape


def merged_with_view(graph: Graph, node: Node) -> Rewrite:
    """The rewrite that merges a Transpose that moves no element with a view: `node` is one, its producer the other.

    Raises NoMatch if they are not, or if the value between them is read elsewhere.
    """
    first = require_producer(graph, node.inputs[0], VIEWS if node.op == "Transpose" else ("Transpose",), node)
    require_single_use(graph, node, first)
    _require_view(graph, first)
    _require_view(graph, node)
    source, result = first.inputs[0], node.outputs[0]
    dims = shape_operand(graph.shape(source), graph.shape(result))
    if dims is None:
        raise NoMatch(f"the shape of '{result}' cannot be written as a constant operand of Reshape")
    name = graph.fresh(f"{result}_shape")
    reshape = node.replace(op_type="Reshape", inputs=(source, name), attributes={})
    edit = Edit(
        remove=(first.name, node.name),
        insert=(reshape,),
        constants={name: constant(np.array(dims, np.int64), name)},
    )
    sentence = f"{first} and {node} move no element and become one Reshape to {list(dims)}; 1 node fewer"
    return Rewrite(edit, sentence, (first.name, node.name))


def transposed_between_views(graph: Graph, node: Node) -> Rewrite:
    """The rewrite of a view, the Transpose `node` and a view as one Transpose, where the views only add and remove axes
    of size 1.

    Raises NoMatch if they do more, if the Transpose moves no element, or if a value between is read elsewhere.
    """
    first = require_producer(graph, node.inputs[0], VIEWS, node)
    users = graph.users(node.outputs[0])
    if len(users) != 1 or users[0].op not in VIEWS:
        raise NoMatch(f"what reads {node} is no Reshape, Flatten, Squeeze or Unsqueeze")
    last = users[0]
    require_single_use(graph, node, first)
    require_single_use(graph, last, node)
    source, result = first.inputs[0], last.outputs[0]
    shape, between, turned = graph.shape(source), graph.shape(node.inputs[0]), permutation(graph, node)
    if shape is None or between is None or not moves_data(turned, between):
        raise NoMatch(f"{node} moves no element, or its shape is not known")
    axes = [axis for axis, dim in enumerate(shape) if dim != 1]
    at = [axis for axis, dim in enumerate(between) if dim != 1]
    if None in shape or [shape[axis] for axis in axes] != [between[axis] for axis in at]:
        raise NoMatch(f"{first} does more than add and remove axes of size 1")
    moved = iter([axes[at.index(axis)] for axis in turned if axis in at])
    ones = iter([axis for axis, dim in enumerate(shape) if dim == 1])
    dims = graph.shape(result) or ()
    perm = tuple(next(ones if dim == 1 else moved, -1) for dim in dims)
    if len(dims) != len(shape) or -1 in perm or [shape[axis] for axis in perm] != list(dims):
        raise NoMatch(f"{last} does not give '{source}' with its axes in another order")
    transpose = node.replace(inputs=(source,), outputs=(result,), attributes={**node.attributes, "perm": perm})
    names = (first.name, node.name, last.name)
    sentence = f"{first} and {last} only change axes of size 1 around {node}: perm {list(perm)} of '{source}'"
    return Rewrite(Edit(remove=names, insert=(transpose,)), f"{sentence}; 2 nodes fewer", names)


def _require_view(graph: Graph, node: Node) -> None:
    """Raises NoMatch for a Transpose that may move elements in memory."""
    if node.op != "Transpose":
        return
    shape = graph.shape(node.inputs[0])
    perm = permutation(graph, node)
    if shape is None or moves_data(perm, shape):
        raise NoMatch(f"{node} permutes axes that are not known to have size 1")


def _operand(graph: Graph, node: Node, rank: int) -> str:
    """The single non-constant operand.

    Raises NoMatch unless every other operand is a one-element constant of rank at most `rank`.
    """
    computed = [value for value in node.inputs if value and graph.constant(value) is None]
    if len(computed) != 1:
        raise NoMatch(f"{node} combines {len(computed)} computed values")
    for value in node.inputs:
        shape = constant_shape(graph.constants[value]) if value in graph.constants else ()
        if len(shape) > rank or any(size != 1 for size in shape):
            raise NoMatch(f"'{value}', an operand of {node}, has more than one element or more axes than the result")
    return computed[0]


def merged_across(graph: Graph, node: Node) -> Rewrite:
    """The rewrite that merges `node`, a view, with a view before it across at least one elementwise operator.

    Raises NoMatch if there is no such view, or if something between is read elsewhere.
    """
    result = graph.shape(node.outputs[0])
    if result is None:
        raise NoMatch(f"the shape of '{node.outputs[0]}' of {node} is not known")
    chain: list[Node] = []
    below, value = node, node.inputs[0]
    while True:
        above = graph.producer(value)
        if above is None or len(chain) > _MAX_NODES or above.op not in (*VIEWS, *_ELEMENTWISE):
            raise NoMatch(f"{node} does not follow a change of shape and elementwise operators")
        require_single_use(graph, below, above)
        if above.op in VIEWS:
            break
        chain.insert(0, above)
        below, value = above, _operand(graph, above, len(result))
    if not chain:
        raise NoMatch(f"{node} follows {above} directly")
    source = above.inputs[0]
    same = is_same_shape(graph.shape(source), result)
    dims = () if same else shape_operand(graph.shape(source), result)
    if dims is None:
        raise NoMatch(f"the shape of '{node.outputs[0]}' cannot be written as a constant operand of Reshape")
    return _merged(graph, above, chain, node, None if same else dims)


def _merged(graph: Graph, first: Node, chain: list[Node], node: Node, entries: tuple[int, ...] | None) -> Rewrite:
    """The elementwise operators on the operand of `first`.

    entries: the new shape of a Reshape inserted before them, or None to insert no Reshape.
    """
    result, new_names = graph.shape(node.outputs[0]), list[str]()
    inserted, types, constants = list[Node](), dict[str, TensorType | None](), dict[str, Constant]()

    def fresh(value: str, suffix: str) -> str:
        new_names.append(graph.fresh(f"{value}_{suffix}", new_names))
        return new_names[-1]

    def reshaped(value: str) -> str:
        name, type_ = fresh(value, "reshaped"), graph.tensor_type(value)
        types[name] = None if type_ is None else type_.with_shape(result)
        return name

    value = first.inputs[0]
    if entries is not None:
        shape = fresh(node.outputs[0], "shape")
        constants[shape] = constant(np.array(entries, np.int64), shape)
        name = reshaped(first.outputs[0])
        inserted.append(node.replace(op_type="Reshape", inputs=(value, shape), outputs=(name,), attributes={}))
        value = name
    read = first.outputs[0]
    for operator in chain:
        name = node.outputs[0] if operator is chain[-1] else reshaped(operator.outputs[0])
        inserted.append(
            operator.replace(inputs=tuple(value if v == read else v for v in operator.inputs), outputs=(name,))
        )
        read, value = operator.outputs[0], name
    removed = (first.name, *(operator.name for operator in chain), node.name)
    edit = Edit(remove=removed, insert=tuple(inserted), constants=constants, types=types)
    verb = "cancel" if entries is None else f"become one Reshape to {list(entries)}"
    nodes = f"{len(chain)} elementwise node{'s' if len(chain) > 1 else ''}"
    return Rewrite(edit, f"{first} and {node} {verb} across {nodes}", removed)
