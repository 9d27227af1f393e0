"""Equal random numbers for two models that are compared.

An operator without a seed returns different numbers in each session, in ONNX Runtime also depending on its
position in the graph. For a comparison all such operators get one seed, in both files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
from onnx import helper

from workbench.analysis.inference.evaluate import RANDOM
from workbench.formats.io.checks import every_node
from workbench.ir import Graph, Node
from workbench.ir.to_proto import LARGE
from workbench.rewrite.external.files import MAX_INSIDE

SEED = 1
_INTEGER_SEED = ("Dropout", "workbench.random_mask_like")  # the seed of the others is a float


def is_random(graph: Graph) -> bool:
    """Whether the graph, or a body or function of it, has a random operator without a seed."""
    return any("seed" not in node.attributes for node in _random_nodes(graph))


def uses_random_numbers(graph: Graph) -> bool:
    """Whether there is a random operator, with a seed or without.

    A seed determines only the numbers of a session's first run in ONNX Runtime; the next run draws others.
    """
    return any(True for _ in _random_nodes(graph))


def _random_nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        if _draws(node.op, node.inputs):
            yield node
        for body in node.bodies.values():
            yield from _random_nodes(body)
    for function in graph.functions.values():
        yield from _random_nodes(function.graph)


def with_seeds(file: Path, folder: Path) -> Path:
    """A copy of the model in `folder`, in which every random operator has a seed."""
    model = onnx.load(file)
    for node in every_node(model):
        op = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        if _draws(op, node.input) and not any(a.name == "seed" for a in node.attribute):
            is_integer = op in _INTEGER_SEED
            node.attribute.append(helper.make_attribute("seed", SEED if is_integer else float(SEED)))
    copy = folder / "seeded.onnx"
    onnx.save(model, copy, save_as_external_data=model.ByteSize() > MAX_INSIDE, size_threshold=LARGE)
    return copy


def _draws(op: str, inputs: Sequence[str]) -> bool:
    """Whether the operator is random; a Dropout only if it may be in training mode, which exists since opset 12."""
    return op in RANDOM and (op != "Dropout" or (len(inputs) > 2 and bool(inputs[2])))
