"""Certificates for tests: written, edited with a digest that fits, and checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import workbench as wb
from workbench.checker.checking import CheckResult
from workbench.checker.records import content_digest
from workbench.pipeline.running import start
from workbench.planning.layout.profile import load_profile, machine_target
from workbench.planning.memory.planning import MemoryPlan


@dataclass(frozen=True)
class Certified:
    """A model, what became of it, and the certificate of that."""

    model: Path
    output: Path
    path: Path

    @property
    def content(self) -> dict[str, Any]:
        return json.loads(self.path.read_text())

    def check(self, runs: int = 0) -> CheckResult:
        return wb.check_certificate(self.model, self.output, self.path, runs)

    def proven(self) -> str:
        """The sentences that the checker has checked, as lines."""
        return "\n".join(statement.sentence for statement in self.check().statements if statement.proven)

    def told(self) -> str:
        """Those that are the word of the engine or of a solver."""
        return "\n".join(statement.sentence for statement in self.check().statements if not statement.proven)

    def edited(self, change: Callable[[dict[str, Any]], None]) -> Certified:
        """Another certificate of the same files, with a digest that fits."""
        content = self.content
        change(content)
        return self.written(json.dumps(content | {"digest": content_digest(content)}))

    def written(self, text: str) -> Certified:
        """Another certificate with this text."""
        path = self.path.with_name("edited.json")
        path.write_text(text)
        return Certified(self.model, self.output, path)


def certified(model: Path, folder: Path, dims: dict[str, int] | None = None, **words: Any) -> Certified:
    """A model optimized with these words of `wb.optimize`, and the certificate."""
    found = Certified(model, folder / "out.onnx", folder / "certificate.json")
    history = wb.optimize(wb.load(model, dims), **{"target": "cuda", **words})
    wb.export(history.graph, found.output)
    wb.certificate(history, model, found.output, found.path)
    return found


def certified_plan(
    model: Path, folder: Path, plan: Callable[[MemoryPlan], MemoryPlan] = lambda plan: plan
) -> Certified:
    """A plan of the model's own memory."""
    graph = wb.load(model)
    found = Certified(model, model, folder / "certificate.json")
    history = start(graph, load_profile(machine_target()))
    wb.certificate(history, model, model, found.path, plan(wb.memory_plan(graph, seconds=5)))
    return found


def bound(content: dict[str, Any]) -> dict[str, Any]:
    """The only bound."""
    (found,) = content["bounds"]
    return found


def rewrites(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of passes, in order."""
    passes = [step for step in content["steps"] if step["pass"] not in ("loading", "exporting")]
    return [rewrite for step in passes for rewrite in step["rewrites"]]


def small_network(path: Path) -> Path:
    """Convolutions, a BatchNormalization, two Sums and pools on an image of 16x16, at an opset that needs no change."""
    shapes = {"w": (8, 3, 3, 3), "v": (8, 8, 3, 3), "u": (8, 8, 1, 1)}
    shapes |= dict.fromkeys(("scale", "bias", "mean", "var"), (8,))
    random = np.random.default_rng(0)
    weights = [np.abs(random.standard_normal(shape)).astype(np.float32) for shape in shapes.values()]
    same = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], **same),
        helper.make_node("BatchNormalization", ["a", "scale", "bias", "mean", "var"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "v"], ["d"], **same),
        helper.make_node("Sum", ["d", "c"], ["e"]),
        helper.make_node("MaxPool", ["e"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["f", "u"], ["g"], kernel_shape=[1, 1], strides=[1, 1]),
        helper.make_node("Sum", ["g", "f"], ["h"]),
        helper.make_node("Sigmoid", ["h"], ["i"]),
        helper.make_node("GlobalAveragePool", ["i"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [1, 3, 16, 16]), ("y", [1, 8, 1, 1]))
    ]
    held = [numpy_helper.from_array(array, name) for name, array in zip(shapes, weights, strict=True)]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), path)
    return path
