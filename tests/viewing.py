"""Histories and views that the tests of the picture share."""

from __future__ import annotations

import random
from functools import cache

from workbench.formats.io import load_model
from workbench.formats.io.samples import FOLDER
from workbench.ir import Graph, Node, TensorType
from workbench.ir.types import DataType
from workbench.pipeline import running as pipeline
from workbench.pipeline.registry.pass_choice import choose
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.scene import View
from workbench.presentation.view.timeline import timeline_of
from workbench.rewrite import History, PassContext


def history_of(graph: Graph, passes: list[str], target: str = "cuda") -> History:
    profile = load_profile(target)
    return pipeline.run_pipeline(graph, choose(passes), PassContext(profile))


@cache
def sample_history(stem: str, *passes: str, target: str = "cuda") -> History:
    return history_of(load_model(FOLDER / f"{stem}.onnx"), list(passes), target)


def view_of(history: History, target: str = "cuda", title: str = "model") -> View:
    profile = load_profile(target)
    return View(timeline_of(history, profile), title, profile.layout)


def large_graph(nodes: int, scopes: bool = False, seed: int = 0) -> Graph:
    """Chains of Conv-like and elementwise nodes with skips, as real networks have them; one value that many read."""
    draw = random.Random(seed)
    made: list[Node] = []
    values = ["x"]
    for number in range(nodes):
        scope = f"/stage{number // 1000}/block{number // 100}/layer{number // 20}/" if scopes else ""
        reads = [values[-1]]
        op = draw.choice(("Relu", "Sigmoid", "Neg", "Abs"))
        if number % 7 == 3:
            op, reads = "Add", [values[-1], values[max(0, len(values) - draw.randint(2, 12))]]
        if number % 40 == 11:
            op, reads = "Mul", [values[-1], "mask"]
        made.append(Node(op, tuple(reads), (f"v{number}",), name=f"{scope}{op}_{number}"))
        values.append(f"v{number}")
    type_ = TensorType(DataType.FLOAT, (1, 8, 16, 16))
    types = dict.fromkeys((*values, "mask"), type_)
    return Graph(
        name="large", inputs=("x", "mask"), outputs=(values[-1],), nodes=made, types=types, opset_imports={"": 23}
    )
