"""onnxslim: folds constants and shapes, removes what is not needed, and fuses by patterns of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.rewrite import Example
from workbench.rewrite.external.files import read_whole, write_whole
from workbench.rewrite.external.tool_pass import ToolPass


@dataclass(frozen=True)
class Onnxslim(ToolPass):
    """The whole model goes through `onnxslim.slim`.

    Source: https://github.com/inisis/OnnxSlim.
    """

    title = "onnxslim"
    packages = ("onnxslim",)

    extra_examples = (
        Example(
            title="A sum of constants",
            before="""g (float[2,3] x) => (float[2,3] y) <float[1] one = {1}, float[1] two = {2}> {
                three = Add(one, two)
                y = Mul(x, three)
            }""",
            after="g (float[2,3] x) => (float[2,3] y) <float[1] three = {3}> { y = Mul(x, three) }",
            sentences=("Add 'Add_three' becomes constant 'three'; 1 node fewer",),
        ),
    )

    def convert(self, source: Path, target: Path) -> None:
        import onnxslim

        write_whole(onnxslim.slim(read_whole(source)), target)
