"""Write the sample models: `python sample_models/make.py [FOLDER]`. The files are bitwise equal each time.

The small graphs are from the texts on which this project is based; their weights are random with a fixed seed. The
graphs of the group Algebra are the examples of their rules. `index.toml` describes each file. `LICENSES.md` has the
origin of the three real models, which are not written here.
"""

from __future__ import annotations

import math
import sys
import zlib
from pathlib import Path

import numpy as np
from onnx import ModelProto, checker, helper, numpy_helper, parser

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sample_models.graphs import DECLARED_LAYOUTS, GRAPHS
from sample_models.light import random_light
from sample_models.texts import texts
from workbench.ir.from_proto import from_proto
from workbench.ir.to_proto import to_proto
from workbench.ops.channels_last import DOMAIN
from workbench.ops.own_functions import with_own_functions
from workbench.planning.layout.declared import DECLARED

_HEADER = '<ir_version: 8, opset_import: ["": 17], producer_name: "graph-workbench samples">\n'


def models() -> dict[str, ModelProto]:
    """Every generated model, by file name."""
    results = {file: _model(text, shapes) for file, (text, shapes) in GRAPHS.items()}
    for file, layouts in DECLARED_LAYOUTS.items():
        helper.set_model_props(results[file], {f"{DECLARED}{value}": layout for value, layout in layouts.items()})
    results["resnet50_narrow.onnx"] = random_light("resnet50", narrow=8, classes=250)
    return results


def _model(text: str, shapes: dict[str, tuple[int, ...]]) -> ModelProto:
    model = parser.parse_model(_HEADER + text)
    for node in model.graph.node:
        node.name = node.output[0]
    channels_last = any(node.domain == DOMAIN for node in model.graph.node)
    if channels_last:
        model.opset_import.add(domain=DOMAIN, version=1)
        model.functions.extend(to_proto(with_own_functions(from_proto(model))).functions)
    for name, shape in shapes.items():
        random = np.random.default_rng(zlib.crc32(f"{model.graph.name}/{name}".encode()))
        inputs = shape[:-1] if channels_last else shape[1:]  # in HWIO, the result's channels are the last axis
        scale = math.sqrt(2.0 / math.prod(inputs)) if len(shape) > 1 else 0.1
        values = random.standard_normal(shape, np.float32) * np.float32(scale)
        if name.startswith("variance"):
            values = 1 + np.abs(values)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def main(folder: Path) -> None:
    for file, model in models().items():
        checker.check_model(model, full_check=True)
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(model.SerializeToString(deterministic=True))
        print(f"{file}: {len(model.graph.node)} nodes, {(folder / file).stat().st_size:,} bytes")
    for file, text in texts().items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
        print(f"{file}: {len(text):,} characters")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)
