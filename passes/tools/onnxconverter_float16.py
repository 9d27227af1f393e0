"""The converter to float16 of onnxconverter-common, which converts every operator that can be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.rewrite import Example
from workbench.rewrite.external.files import read_whole
from workbench.rewrite.external.float16_pass import Float16Pass


@dataclass(frozen=True)
class OnnxconverterFloat16(Float16Pass):
    """The whole model goes through `onnxconverter_common.float16.convert_float_to_float16`, with inputs and outputs in
    float32.

    Source: https://github.com/microsoft/onnxconverter-common.
    """

    title = "onnxconverter-common's converter to float16"
    packages = ("onnxconverter_common",)

    extra_examples = (
        Example(
            title="Two operators between two Casts",
            before="g (float[2,3] x) => (float[2,3] y) { a = Exp(x)  y = Neg(a) }",
            after="""g (float[2,3] x) => (float[2,3] y) {
                x_cast_to_Exp_a = Cast<to=10>(x)
                a_1 = Exp(x_cast_to_Exp_a)
                Neg_y_cast_to_y = Neg(a_1)
                y = Cast<to=1>(Neg_y_cast_to_y)
            }""",
            sentences=("Exp 'Exp_a' and Neg 'Neg_y' run in float16; 2 nodes more",),
        ),
    )

    def convert(self, source: Path, target: Path) -> None:
        from onnxconverter_common import float16

        model = read_whole(source)
        kept = self.kept(model)
        self.write(float16.convert_float_to_float16(model, keep_io_types=True, node_block_list=kept), target)
