"""ONNX Runtime's dynamic quantizer: weights become 8-bit integers, and other operands at each run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.rewrite import Example, option
from workbench.rewrite.external.files import MAX_INSIDE
from workbench.rewrite.external.quantizer_pass import QuantizerPass

_TYPES = {"int8": "QInt8", "uint8": "QUInt8"}


@dataclass(frozen=True)
class OrtQuantizeDynamic(QuantizerPass):
    """The whole model goes through `onnxruntime.quantization.quantize_dynamic`: a Conv or MatMul of a weight becomes
    a product of integers, whose other operand is quantized when it is computed.

    Source: https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html.
    """

    title = "ONNX Runtime's dynamic quantizer"
    packages = ("onnxruntime",)

    weights: str = option("int8", "The number type of weights.", choices=tuple(_TYPES))
    per_channel: bool = option(
        False, "Whether a weight of a product has a scale for each channel. A Conv has one scale in either case."
    )
    reduce_range: bool = option(False, "Whether weights use 7 bits, so that sums of 16 bits do not saturate.")

    extra_examples = (
        Example(
            title="A product with a weight",
            before="""g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1.27, 0.5, -0.3, 0.104}> {
                y = MatMul(x, w)
            }""",
            after="""g (float[2,2] x) => (float[2,2] y)
                <int8[2,2] w_quantized = {127, 50, -30, 10}, int8 w_zero_point = {0}, float w_scale = {0.01}> {
                x_quantized, x_scale, x_zero_point = DynamicQuantizeLinear(x)
                y_output_quantized = MatMulInteger(x_quantized, w_quantized, x_zero_point, w_zero_point)
                y_output_quantized_cast_output = Cast<to=1>(y_output_quantized)
                "MatMul_y_quant_scales_mul:0" = Mul(x_scale, w_scale)
                y = Mul(y_output_quantized_cast_output, "MatMul_y_quant_scales_mul:0")
            }""",
            sentences=(
                "MatMul 'MatMul_y' is quantized: 'x' as uint8, whose scale and zero point are those of each run; 'w' as"
                " int8, scale 0.01, zero point 0, largest error 0.004 of 1.3; 4 nodes more",
            ),
        ),
    )

    def convert(self, source: Path, target: Path) -> str:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        model = self.read(source)
        attention = [node.name for node in model.graph.node if node.op_type == "Attention" and node.domain == ""]
        quantize_dynamic(
            model,
            target,
            per_channel=self.per_channel,
            reduce_range=self.reduce_range,
            weight_type=getattr(QuantType, _TYPES[self.weights]),
            nodes_to_exclude=[*self.kept(model), *attention],
            use_external_data_format=model.ByteSize() > MAX_INSIDE,
        )
        notes = []
        if self.per_channel and any(node.op_type == "Conv" for node in model.graph.node):
            notes.append("a Conv has one scale for all channels, since this quantizer has channels for products alone")
        if attention:
            notes.append("ONNX's Attention stays in float, since this quantizer takes it for ONNX Runtime's own")
        return "; ".join(notes)
