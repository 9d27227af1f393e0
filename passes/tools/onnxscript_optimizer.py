"""onnxscript's optimizer, which torch's exporter uses: folds constants and shapes, and inlines functions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.rewrite import Example
from workbench.rewrite.external.files import read_whole, write_whole
from workbench.rewrite.external.tool_pass import ToolPass


@dataclass(frozen=True)
class OnnxscriptOptimizer(ToolPass):
    """The whole model goes through `onnxscript.optimizer.optimize`.

    Source: https://github.com/microsoft/onnxscript.
    """

    title = "onnxscript's optimizer"
    packages = ("onnxscript",)

    extra_examples = (
        Example(
            title="Two Transposes that cancel",
            before="""g (float[2,3] x) => (float[2,3] y) {
                a = Transpose<perm=[1,0]>(x)
                b = Transpose<perm=[1,0]>(a)
                y = Relu(b)
            }""",
            after="g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }",
            sentences=(
                "Transpose 'Transpose_a', Transpose 'Transpose_b' and Relu 'Relu_y' become Relu 'Relu_y';"
                " 2 nodes fewer",
            ),
        ),
    )

    def convert(self, source: Path, target: Path) -> None:
        from onnxscript import optimizer

        write_whole(optimizer.optimize(read_whole(source)), target)
