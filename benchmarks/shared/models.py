"""The models of a benchmark, by their names: files, samples, and models that are generated with random weights.

    a path           of a file, or of a folder of *.onnx
    a sample         the name of a file of sample_models/
    resnet50, ...    a light network of the onnx package, as `sample_models/light.py` fills it; resnet50_light_random
    bert             as TorchScript exports it, of 12 layers of 64; bert_torchscript, bert_torchscript_dynamic
    bert_5000        of about 5,000 nodes, by `bert.py`
    vit_b16, ...     a network of `gpu/networks.py`; vit_b16_narrow with few and narrow layers

`python -m benchmarks.shared.models NAME FILE` writes a generated one.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.shared.benchmark import ROOT

SAMPLE_FOLDER = ROOT / "sample_models"
SAMPLES = tuple(path.stem for path in sorted(SAMPLE_FOLDER.glob("*.onnx")))
RESNET50 = "resnet50_light_random"  # resnet50 under another name
LIGHT = (  # as LIGHT_MODELS of `sample_models/light.py`, which would import the onnx package here
    *("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50"),
    *("shufflenet", "squeezenet", "vgg19", "zfnet512"),
)
MAKER = "benchmarks.shared.models"


def models_of(chosen: argparse.Namespace, default: Sequence[str]) -> Iterator[Path]:
    """The files that the command line names, by themselves or after the default ones. See `model_files`."""
    yield from model_files([*([] if chosen.models and not chosen.and_default else default), *chosen.models])


def model_files(names: Sequence[str]) -> Iterator[Path]:
    """The file of each. A generated one is written by another process, and deleted when the next one is asked for."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path, sample = Path(name).resolve(), SAMPLE_FOLDER / f"{name}.onnx"
            if path.is_dir():
                yield from sorted(path.glob("*.onnx"))
            elif path.is_file() or sample.is_file():
                yield path if path.is_file() else sample
            else:
                made = Path(folder) / f"{name}.onnx"
                if subprocess.run([sys.executable, "-m", MAKER, name, str(made)], cwd=ROOT).returncode:
                    raise SystemExit(1)  # it says why
                yield made
                made.unlink()


def make(name: str, file: Path) -> None:
    """Write the generated model of that name. Raises SystemExit if there is none."""
    if name in (*LIGHT, RESNET50):
        from sample_models.light import random_light

        file.write_bytes(random_light(name.removesuffix("_light_random")).SerializeToString())
    elif re.fullmatch(r"bert_\d+", name):
        from benchmarks.shared.bert import bert_of

        file.write_bytes(bert_of(int(name.removeprefix("bert_"))).SerializeToString())
    elif name in ("bert", "bert_torchscript", "bert_torchscript_dynamic"):
        from tests.torch_bert import exported_bert

        exported_bert(file, dynamic=name.endswith("dynamic"))
    else:
        from benchmarks.gpu.networks import NETWORKS, exported, network

        whole = name.removesuffix("_narrow")
        if whole not in NETWORKS:
            raise SystemExit(f"there is no file and no model '{name}'")
        exported(*network(whole, 1, whole != name), file)


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
