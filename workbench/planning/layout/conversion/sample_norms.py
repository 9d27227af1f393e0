"""Group normalization of one group as one operator while a strategy chooses layouts, and as three nodes again.

Each item is (edit, sentence, names of the nodes); the edit is applied before the next item is requested.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, TensorType, ValueType, constant
from workbench.ops.channels_last import DOMAIN
from workbench.ops.sample_normalization import SAMPLE_NORM
from workbench.planning.layout.conversion.convert import is_only_reader
from workbench.planning.layout.conversion.transpose_cleanup import EditWithSentence
from workbench.rewrite.analyses.reshapes import shape_operand
from workbench.rewrite.core.guards import is_same_shape

_ONE_GROUP = (0, 1, -1)
_Names = tuple[str, ...]  # of the two Reshapes, of the values between the three nodes, and of the shape operands


def joined_norms(graph: Graph, joined_names: dict[str, _Names]) -> Iterator[EditWithSentence]:
    """Each Reshape to one group, InstanceNormalization and Reshape back become one operator, which has any layout.

    joined_names: the function adds to it, by operator, the names that `split_norms` gives again.
    """
    for node in graph.nodes_of(("InstanceNormalization",)):
        split, back = graph.producer(node.inputs[0]), _only_reader(graph, node.outputs[0])
        if split is None or back is None or not _is_one_group(graph, split, node, back):
            continue
        shapes = (split.inputs[1], back.inputs[1])
        joined_names[node.name] = (split.name, back.name, *split.outputs, *node.outputs, *shapes)
        joined = node.replace(
            op_type=SAMPLE_NORM, domain=DOMAIN, inputs=(split.inputs[0], *node.inputs[1:]), outputs=back.outputs
        )
        names = (split.name, node.name, back.name)
        sentence = f"{node} normalizes each sample of '{split.inputs[0]}' as a whole, whatever the order of its axes"
        yield Edit(remove=names, insert=(joined,)), sentence, names


def split_norms(graph: Graph, joined_names: Mapping[str, _Names]) -> Iterator[EditWithSentence]:
    """Each of these operators becomes the three nodes again."""
    known: dict[tuple[int, ...], str] = {}  # the shape operands that were added, by their numbers
    for node in [node for node in graph.nodes_of((f"{DOMAIN}.{SAMPLE_NORM}",)) if node.name in joined_names]:
        yield (
            _split(graph, node, joined_names[node.name], known),
            f"{node} is written as the three nodes that exporters write",
            (node.name,),
        )


def _split(graph: Graph, node: Node, names: _Names, known: dict[tuple[int, ...], str]) -> Edit:
    value, result = node.inputs[0], node.outputs[0]
    taken: set[str] = set()
    constants: dict[str, Constant] = {}

    def free(name: str) -> str:
        """The name, or one like it if something has it."""
        found = graph.fresh(name, taken)
        taken.add(found)
        return found

    def shape_constant(numbers: tuple[int, ...], name: str) -> str:
        if numbers not in known:
            known[numbers] = free(name)
            constants[known[numbers]] = constant(np.array(numbers, np.int64))
        return known[numbers]

    first, last, samples, normalized = map(free, names[:4])
    flat = _flat(graph.tensor_type(value))
    dims = shape_operand(None if flat is None else flat.shape, graph.shape(value))
    runtime = [Node("Shape", (value,), (free(names[5]),), name=free(f"shape_of_{value}"))] if dims is None else []
    restored = runtime[0].outputs[0] if dims is None else shape_constant(dims, names[5])
    instances = node.replace(
        op_type="InstanceNormalization",
        domain="",
        inputs=(samples, *node.inputs[1:]),
        outputs=(normalized,),
    )
    nodes = (
        *runtime,
        Node("Reshape", (value, shape_constant(_ONE_GROUP, names[4])), (samples,), name=first),
        instances,
        Node("Reshape", (normalized, restored), (result,), name=last),
    )
    types: dict[str, ValueType] = {} if flat is None else {samples: flat, normalized: flat}
    return Edit(remove=(node.name,), insert=nodes, constants=constants, types=types)


def _flat(type_: TensorType | None) -> TensorType | None:
    """The type of the samples, each in one axis; None if the operand's rank is unknown."""
    if type_ is None or type_.shape is None:
        return None
    sizes = [dim for dim in type_.shape[1:] if isinstance(dim, int)]
    return type_.with_shape((type_.shape[0], 1, math.prod(sizes) if len(sizes) == len(type_.shape) - 1 else None))


def _only_reader(graph: Graph, value: str) -> Node | None:
    users = graph.users(value)
    return users[0] if len(users) == 1 and not graph.is_output(value) else None


def _is_one_group(graph: Graph, split: Node, node: Node, back: Node) -> bool:
    """Whether the Reshapes make one group of each sample of an image, and the image again."""
    if split.op != "Reshape" or back.op != "Reshape" or not is_only_reader(graph, node, split.outputs[0]):
        return False
    shape, groups = graph.shape(split.inputs[0]), graph.shape(split.outputs[0])
    if shape is None or len(shape) < 3 or groups is None or len(groups) != 3:
        return False
    return shape[0] is not None and groups[:2] == (shape[0], 1) and is_same_shape(shape, graph.shape(back.outputs[0]))
