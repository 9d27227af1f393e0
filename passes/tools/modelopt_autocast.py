"""ModelOpt's AutoCast: converts operators whose values stay in a range on the inputs of calibration to 16 bits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.ir import DataType
from workbench.rewrite import Example, option
from workbench.rewrite.external.files import read_whole
from workbench.rewrite.external.float16_pass import Float16Pass
from workbench.rewrite.external.modelopt import ModeloptPass, check_operators, patterns_of
from workbench.rewrite.external.quantizer_pass import CALIBRATION

_TYPES = {"float16": "fp16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class ModeloptAutocast(ModeloptPass, Float16Pass):
    """The whole model goes through `modelopt.onnx.autocast.convert_to_mixed_precision`, with inputs and outputs in
    float32. A node stays in float32 if a value of it exceeds 512 on the inputs of calibration, or a weight 65,504.

    Source: https://nvidia.github.io/Model-Optimizer/guides/8_autocast.html.
    """

    title = "ModelOpt AutoCast"

    type: str = option("float16", "The narrower type.", choices=tuple(_TYPES))

    extra_examples = (
        Example(
            title="Two operators between two Casts",
            before="g (float[2,3] x) => (float[2,3] y) { a = Exp(x)  y = Neg(a) }",
            after="""g (float[2,3] x) => (float[2,3] y) {
                x_cast_to_fp16 = Cast<to=10>(x)
                a_1 = Exp(x_cast_to_fp16)
                y_pre_cast = Neg(a_1)
                y = Cast<to=1>(y_pre_cast)
            }""",
            sentences=("Exp 'Exp_a' and Neg 'Neg_y' run in float16; 2 nodes more",),
        ),
    )

    @property
    def narrow_type(self) -> DataType:
        return DataType.BFLOAT16 if self.type == "bfloat16" else DataType.FLOAT16

    def convert(self, source: Path, target: Path) -> None:
        from modelopt.onnx.autocast import convert_to_mixed_precision

        model = read_whole(source)
        check_operators(model)
        converted = convert_to_mixed_precision(
            str(source),
            low_precision_type=_TYPES[self.type],
            nodes_to_exclude=patterns_of(self.kept(model)),
            keep_io_types=True,
            calibration_data=str(source.parent / CALIBRATION),
        )
        self.write(converted, target)
