"""onnxoptimizer, ONNX's first optimizer: its passes that fuse and eliminate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.rewrite import Example
from workbench.rewrite.external.files import read_whole, write_whole
from workbench.rewrite.external.tool_pass import ToolPass


@dataclass(frozen=True)
class Onnxoptimizer(ToolPass):
    """The whole model goes through `onnxoptimizer.optimize` with `get_fuse_and_elimination_passes()`.

    Source: https://github.com/onnx/optimizer.
    """

    title = "onnxoptimizer"
    packages = ("onnxoptimizer",)

    extra_examples = (
        Example(
            title="A Cast to the type that a value has",
            before="g (float[2,3] x) => (float[2,3] y) { a = Cast<to=1>(x)  b = Exp(a)  y = Neg(b) }",
            after="g (float[2,3] x) => (float[2,3] y) { b = Exp(x)  y = Neg(b) }",
            sentences=("Cast 'Cast_a' and Exp 'Exp_b' become Exp 'Exp_b'; 1 node fewer",),
        ),
    )

    def convert(self, source: Path, target: Path) -> None:
        import onnxoptimizer

        passes = onnxoptimizer.get_fuse_and_elimination_passes()
        write_whole(onnxoptimizer.optimize(read_whole(source), passes), target)
