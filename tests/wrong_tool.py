"""An optimizer of two parts, one of which is wrong, that can be switched off one at a time."""

from dataclasses import dataclass
from pathlib import Path

import onnx

from workbench.rewrite import option
from workbench.rewrite.external.tool_pass import ToolPass


@dataclass(frozen=True)
class WrongTool(ToolPass):
    title = "wrong tool"

    without: str = option("", "The part that is switched off.")

    def convert(self, source: Path, target: Path) -> str:
        model = onnx.load(source)
        for node in model.graph.node:
            if node.op_type == "Exp" and self.without != "SinForExp":
                node.op_type = "Sin"
            if node.op_type == "Relu" and self.without != "ClipForRelu":
                node.op_type = "Abs"  # right behind a sum of squares
        onnx.save(model, target)
        return "these of its parts acted: ClipForRelu, SinForExp"

    @classmethod
    def switches(cls, said: str) -> list[str]:
        return said.partition(": ")[2].split(", ")
