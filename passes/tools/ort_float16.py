"""ONNX Runtime's converter to float16, of its package for transformers, which converts every operator that can be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.rewrite import Example
from workbench.rewrite.external.files import read_whole
from workbench.rewrite.external.float16_pass import Float16Pass


@dataclass(frozen=True)
class OrtFloat16(Float16Pass):
    """The whole model goes through `onnxruntime.transformers.float16.convert_float_to_float16`, with inputs and outputs
    in float32.

    Source: https://onnxruntime.ai/docs/performance/model-optimizations/float16.html.
    """

    title = "ONNX Runtime's converter to float16"
    packages = ("onnxruntime",)

    extra_examples = (
        Example(
            title="Two operators between two Casts",
            before="g (float[2,3] x) => (float[2,3] y) { a = Exp(x)  y = Neg(a) }",
            after="""g (float[2,3] x) => (float[2,3] y) {
                graph_input_cast_0 = Cast<to=10>(x)
                a_1 = Exp(graph_input_cast_0)
                graph_output_cast_0 = Neg(a_1)
                y = Cast<to=1>(graph_output_cast_0)
            }""",
            sentences=("Exp 'Exp_a' and Neg 'Neg_y' run in float16; 2 nodes more",),
        ),
    )

    def convert(self, source: Path, target: Path) -> None:
        from onnxruntime.transformers import float16
        from onnxruntime.transformers.onnx_model import OnnxModel

        model = read_whole(source)
        kept = self.kept(model)
        converted = OnnxModel(float16.convert_float_to_float16(model, keep_io_types=True, node_block_list=kept))
        converted.topological_sort()  # its Casts are at the end
        self.write(converted.model, target)
