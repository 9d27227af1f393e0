"""ONNX Runtime's own graph optimizations at one level, as it makes them for the CPU when it opens a model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from workbench.rewrite import Example, option
from workbench.rewrite.external.files import MAX_INSIDE, logged
from workbench.rewrite.external.tool_pass import ToolPass

_LEVELS = {"basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}
_ACTED = re.compile(r"GraphTransformer (\S+) modified: 1 ")
# The rules of its rule-based optimizers, which have no line of their own in the log; their names are those of its code.
_RULES = (
    "EliminateIdentity",
    "EliminateSlice",
    "UnsqueezeElimination",
    "EliminateDropout",
    "ExpandElimination",
    "CastElimination",
    "CastChainElimination",
    "PreShapeNodeElimination",
    "NoopElimination",
    "DivMulFusion",
    "FuseReluClip",
    "GemmSumFusion",
    "GemmTransposeFusion",
    "NotWhereFusion",
    "ConvAddFusion",
    "ConvMulFusion",
    "ConvBNFusion",
    "Pad_Fusion",
    "LabelEncoderFusion",
    "MatMul_BatchNormalization_Fusion",
)


@dataclass(frozen=True)
class OrtOptimizer(ToolPass):
    """A session is opened at the level, and the model that it would run is taken.

    "basic" uses ONNX's operators alone, "extended" also operators of `com.microsoft`, which only ONNX Runtime runs,
    "all" also layouts of the processor at hand (`com.microsoft.nchwc`).

    Source: https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html.
    """

    title = "ONNX Runtime's optimizer"
    packages = ("onnxruntime",)

    level: str = option("basic", "How far its optimizations go.", choices=tuple(_LEVELS))
    without: str = option("", "Names of its optimizers that are switched off, separated by commas.")

    extra_examples = (
        Example(
            title="Transposes around a Relu",
            before="""g (float[2,3] x) => (float[2,3] y) {
                a = Transpose<perm=[1,0]>(x)
                b = Relu(a)
                y = Transpose<perm=[1,0]>(b)
            }""",
            after="g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }",
            sentences=(
                "Transpose 'Transpose_a', Relu 'Relu_b' and Transpose 'Transpose_y' become Relu 'Relu_b';"
                " 2 nodes fewer",
            ),
        ),
    )

    def convert(self, source: Path, target: Path) -> str:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, _LEVELS[self.level])
        options.optimized_model_filepath = str(target)
        options.log_severity_level = 0  # its optimizers tell what they did
        if sum(file.stat().st_size for file in source.parent.glob("model*")) > MAX_INSIDE:
            key = "session.optimized_model_external_initializers_file_name"
            options.add_session_config_entry(key, f"{target.name}.data")
        disabled = [name.strip() for name in self.without.split(",") if name.strip()]
        cpu = ["CPUExecutionProvider"]
        with logged() as lines:
            onnxruntime.InferenceSession(str(source), options, providers=cpu, disabled_optimizers=disabled or None)
        acted = dict.fromkeys(_ACTED.findall("".join(lines)))
        return f"these of its optimizers changed the model: {', '.join(acted)}" if acted else ""

    @classmethod
    def switches(cls, report: str) -> list[str]:
        acted = report.partition(": ")[2].split(", ")
        return [
            name
            for optimizer in acted
            if optimizer
            for name in (_RULES if optimizer.endswith("RuleBasedTransformer") else (optimizer,))
        ]
