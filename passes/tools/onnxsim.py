"""onnxsim, the ONNX simplifier: folds constants and shapes, and merges operators by rules of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.rewrite import Example
from workbench.rewrite.external.files import read_whole, write_whole
from workbench.rewrite.external.tool_pass import ToolPass


@dataclass(frozen=True)
class Onnxsim(ToolPass):
    """The whole model goes through `onnxsim.simplify`; what came out is taken even where its own check fails, so that
    verification can say what is wrong.

    Source: https://github.com/onnxsim/onnxsim.
    """

    title = "onnxsim"
    packages = ("onnxsim",)

    extra_examples = (
        Example(
            title="Two Relus and an Identity",
            before="g (float[2,3] x) => (float[2,3] y) { a = Identity(x)  b = Relu(a)  y = Relu(b) }",
            after="g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }",
            sentences=("Identity 'Identity_a', Relu 'Relu_b' and Relu 'Relu_y' become Relu 'Relu_y'; 2 nodes fewer",),
        ),
    )

    def convert(self, source: Path, target: Path) -> None:
        import onnxsim

        simplified, _ = onnxsim.simplify(read_whole(source))
        write_whole(simplified, target)
