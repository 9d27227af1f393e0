"""ModelOpt's quantizer to int8: inserts QuantizeLinear and DequantizeLinear where TensorRT has kernels of integers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx

from workbench.rewrite import Example, option
from workbench.rewrite.external.files import MAX_INSIDE
from workbench.rewrite.external.modelopt import ModeloptPass, check_operators, patterns_of
from workbench.rewrite.external.quantizer_pass import CALIBRATION, CalibrationFiles, QuantizerPass


@dataclass(frozen=True)
class ModeloptQuantize(ModeloptPass, QuantizerPass):
    """The whole model goes through `modelopt.onnx.quantization.quantize` with the mode int8; what it does not quantize
    stays in float32. A weight has a scale for each channel, and zero points are 0.

    Source: https://nvidia.github.io/Model-Optimizer/guides/_onnx_quantization.html.
    """

    title = "ModelOpt's quantizer"

    method: str = option("entropy", "How the range of a value follows from its numbers.", choices=("entropy", "max"))

    extra_examples = (
        Example(
            title="A convolution with a weight",
            before="""g (float[1,1,2,2] x) => (float[1,8,2,2] y)
                <float[8,1,1,1] w = {1.27, 0.5, 2.54, 1.27, 1, -1.27, 2, -2.54}> {
                y = Conv(x, w)
            }""",
            after="""g (float[1,1,2,2] x) => (float[1,8,2,2] y)
                <float[8,1,1,1] w = {1.27, 0.5, 2.54, 1.27, 1, -1.27, 2, -2.54},
                 float[8] w_scale = {0.01, 0.003937008, 0.02, 0.01, 0.007874016, 0.01, 0.015748031, 0.02},
                 int8[8] w_zero_point = {0, 0, 0, 0, 0, 0, 0, 0},
                 float x_scale = {0.00957615}, int8 x_zero_point = {0}> {
                w_QuantizeLinear_Output = QuantizeLinear<axis=0>(w, w_scale, w_zero_point)
                x_QuantizeLinear_Output = QuantizeLinear(x, x_scale, x_zero_point)
                w_DequantizeLinear_Output = DequantizeLinear<axis=0>(w_QuantizeLinear_Output, w_scale, w_zero_point)
                x_DequantizeLinear_Output = DequantizeLinear(x_QuantizeLinear_Output, x_scale, x_zero_point)
                y = Conv(x_DequantizeLinear_Output, w_DequantizeLinear_Output)
            }""",
            sentences=(
                "Conv 'Conv_y' is quantized: 'w' as int8, 8 scales 0.00394 to 0.02 along axis 0, zero point 0;"
                " 'x' as int8, scale 0.00958, zero point 0; 4 nodes more",
            ),
        ),
    )

    def convert(self, source: Path, target: Path) -> None:
        from modelopt.onnx.quantization import quantize

        model = self.read(source)
        check_operators(model)
        large = model.ByteSize() > MAX_INSIDE
        stripped = source.with_name("stripped.onnx")
        onnx.save(model, stripped, save_as_external_data=large)
        quantize(
            str(stripped),
            calibration_method=self.method,
            calibration_data_reader=CalibrationFiles(source.parent / CALIBRATION),
            calibration_eps=["cpu"],
            nodes_to_exclude=patterns_of(self.kept(model)),
            use_external_data_format=large,
            output_path=str(target),
            high_precision_dtype="fp32",
        )
