"""ONNX Runtime's static quantizer: inserts QuantizeLinear and DequantizeLinear, with scales from calibration."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path

from onnx import ModelProto, TensorProto

from workbench.rewrite import Example, option
from workbench.rewrite.external.files import MAX_INSIDE
from workbench.rewrite.external.quantizer_pass import CALIBRATION, CalibrationFiles, QuantizerPass

_BIAS = 2  # the operand of Conv, Gemm and the norms
_TYPES = {"int8": "QInt8", "uint8": "QUInt8", "int4": "QInt4", "uint4": "QUInt4"}


@dataclass(frozen=True)
class OrtQuantizeStatic(QuantizerPass):
    """The whole model goes through `onnxruntime.quantization.quantize_static` in the format QDQ. The scale of a value
    is that of its least and greatest number in runs on the inputs of calibration.

    Source: https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html.
    """

    title = "ONNX Runtime's static quantizer"
    packages = ("onnxruntime",)

    activations: str = option("uint8", "The number type of values that are computed.", choices=("uint8", "int8"))
    weights: str = option("int8", "The number type of weights.", choices=tuple(_TYPES))
    per_channel: bool = option(False, "Whether a weight has a scale for each channel.")
    reduce_range: bool = option(False, "Whether weights use 7 bits, so that sums of 16 bits do not saturate.")
    calibration: str = option("", "An .npz file of inputs, or a folder of them; else the inputs of the run, or seeded.")

    extra_examples = (
        Example(
            title="A product with a weight",
            before="""g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1.27, 0.5, -0.3, 0.104}> {
                y = MatMul(x, w)
            }""",
            after="""g (float[2,2] x) => (float[2,2] y)
                <int8[2,2] w_quantized = {127, 50, -30, 10}, float w_scale = {0.01}, int8 w_zero_point = {0},
                 float x_scale = {0.007312588}, uint8 x_zero_point = {89},
                 float y_scale = {0.00803572}, uint8 y_zero_point = {143}> {
                w_DequantizeLinear_Output = DequantizeLinear(w_quantized, w_scale, w_zero_point)
                x_QuantizeLinear_Output = QuantizeLinear(x, x_scale, x_zero_point)
                x_DequantizeLinear_Output = DequantizeLinear(x_QuantizeLinear_Output, x_scale, x_zero_point)
                y_QuantizeLinear_Input = MatMul(x_DequantizeLinear_Output, w_DequantizeLinear_Output)
                y_QuantizeLinear_Output = QuantizeLinear(y_QuantizeLinear_Input, y_scale, y_zero_point)
                y = DequantizeLinear(y_QuantizeLinear_Output, y_scale, y_zero_point)
            }""",
            sentences=(
                "MatMul 'MatMul_y' is quantized: 'w' as int8, scale 0.01, zero point 0, largest error 0.004 of 1.3; 'x'"
                " as uint8, scale 0.00731, zero point 89; 'y' as uint8, scale 0.00804, zero point 143; 5 nodes more",
            ),
        ),
    )

    @property
    def calibration_files(self) -> str | None:
        return self.calibration

    def convert(self, source: Path, target: Path) -> None:
        from onnxruntime.quantization import QuantType, quantize_static

        model = _with_own_biases(self.read(source))
        quantize_static(
            model,
            target,
            CalibrationFiles(source.parent / CALIBRATION),
            per_channel=self.per_channel,
            reduce_range=self.reduce_range,
            activation_type=getattr(QuantType, _TYPES[self.activations]),
            weight_type=getattr(QuantType, _TYPES[self.weights]),
            nodes_to_exclude=self.kept(model),
            use_external_data_format=model.ByteSize() > MAX_INSIDE,
            extra_options={"QDQKeepRemovableActivations": True},  # else values lose a Relu and keep their names
        )


def _with_own_biases(model: ModelProto) -> ModelProto:
    """The model, in which no two nodes share a bias. The quantizer copies a shared one, to a name with a number behind
    it, which may be the name of a computed value: both then get the integers of one of them."""
    taken = {value for node in model.graph.node for value in (*node.input, *node.output)}
    biases = {t.name: t for t in model.graph.initializer if t.data_type == TensorProto.FLOAT and len(t.dims) == 1}
    read = set()
    for node in model.graph.node:
        bias = node.input[_BIAS] if len(node.input) > _BIAS else ""
        if bias in read:
            copy = model.graph.initializer.add()
            copy.CopyFrom(biases[bias])
            copy.name = node.input[_BIAS] = next(n for i in count(1) if (n := f"{bias}_copy_{i}") not in taken)
            taken.add(copy.name)
        elif bias in biases:
            read.add(bias)
    return model
