"""Run every benchmark and write docs/results.md: `python benchmarks/results.py [FOLDER]` (an hour).

FOLDER: real models (`*.onnx`) that are taken beside the samples. It needs a Chromium.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "results.md"

HEAD = """# Results

Written by `python benchmarks/results.py`; every number here was measured by it, the bad ones too.

{machine}

Other work on the machine moves times; compare within one table, not between tables or machines.
Nothing here ran on a GPU: none was at hand. `python benchmarks/layouts.py --device cuda` and
`python benchmarks/resnet101.py --device cuda` make the last tables on one.

"""

ENGINE = """## The engine

Each command is a process of its own, started {repeat} times, from the shell's prompt to its end.
Peak memory is the largest resident set; it holds Python, numpy, onnx and ONNX Runtime (about 65 MB) and,
of a model, the pages of the file that were read. So a small file cannot stay under three times its size, nor does
`unet_sd15_raw`, 44 MB in 4,545 nodes; beside each model of 20 MB and more stands what the onnx package alone takes to
load, check, infer shapes and save.

"""

SIMPLIFY = """## Simplifying, beside other tools

The preset `simplify` in its default mode `ieee`, onnxsim, onnxslim, onnxscript and ONNX Runtime's basic level, by
turns; `benchmarks/simplify.py`, whose head says what each column is, installs them in an environment of their own.

"""

GROWING = """
How time and memory grow: BERTs as TorchScript exports them, with symbolic batch and sequence.

"""

STRATEGIES = """## Transposes that each layout strategy leaves

Transposes of activations at run time, in brackets the elements that they move; the default preset, weights not counted.
A strategy can leave more than it found: only `optimal`, `optimal-any-order` and `blocked` weigh everything together.
`measured` goes by times taken on this machine, so its row is another elsewhere.

"""

MINIMUM = """## The proven minimum

`layout_optimal` on networks with random weights, batch norms folded: as they are (plain), with NHWC values and each
layout-sensitive operator between two transposes (nhwc), with every 1x1 convolution of stride 1 as a MatMul on NHWC
values (mixed). Every row is certified: the transposes that stay move as many bytes as the maximum flow says they must.
The last column was measured elsewhere, with a smaller operator table.

"""

GROWTH = """
How the time grows: residual blocks, two of three with a MatMul on NHWC values between transposes, profile `cpu`.
"""

LAYOUTS = """## What a layout gains on this machine, ResNet-50, batch {batch}

The graph of the onnx package's `light_resnet50` with random weights; all variants of a table ran by turns,
`ratio` is the median of the time against "as loaded" (under 1 is faster) with its 95 % interval.

"""


VIEW = """## The graph view

In Debian's Chromium with software rendering, 1366 x 768, driven by `benchmarks/view.py`, whose head says how each
figure is measured. "Asked" is what was set as a goal before it was built. "First picture" holds everything from the
navigation on, so loading the file too (1.5 s of 10,000 nodes); below it stands the same for a model that was loaded
before. One graph fills one pane; histories have two.

"""

RESNET_101 = """## ResNet-101 by every strategy

OneFlow's table (V100, mixed precision, its automatic NHWC): batch 16, 14 s against 13 s; 32, 24 against 22; 64, 44
against 38. **It has not been run here, for want of a GPU**: `python benchmarks/resnet101.py --device cuda` makes it,
NCHW against each strategy by turns, batch 16, 32 and 64, mixed precision. Below, the same command on this machine's
CPU, float32, batch 1, random weights.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    samples = {p.name for p in (HERE.parent / "sample_models").glob("*.onnx")}
    found = [] if chosen.folder is None else sorted(chosen.folder.resolve().glob("*.onnx"))
    real = [str(path) for path in found if path.name not in samples]
    parts = [HEAD.format(machine=_machine())]
    parts += [ENGINE.format(repeat=chosen.repeat), _run("engine.py", "--repeat", str(chosen.repeat))]
    if real:
        parts += _without_head(_run("engine.py", "--repeat", str(chosen.repeat), *real), "`passes`")
    folder = [] if chosen.folder is None else [str(chosen.folder)]
    parts += ["\n", SIMPLIFY, _run("simplify.py", "--repeat", "1", *folder)]
    parts += ["\n", GROWING, _run("simplify.py", "--repeat", "1", "--scale")]
    parts += ["\n", STRATEGIES, _run("strategies.py")]
    if real:
        parts += _without_head(_run("strategies.py", *real))
    counts, growth = _run("minimum.py").split("\n\n")
    parts += ["\n", MINIMUM, counts, "\n", GROWTH, "\n", growth]
    for batch in (1, 2):
        parts += ["\n", LAYOUTS.format(batch=batch), _run("layouts.py", "--batch", str(batch)).lstrip("\n")]
    words = ("--batches", "1", "--dtype", "float32", "--repeat", "10")
    parts += ["\n", RESNET_101, _run("resnet101.py", *words)]
    unet = [str(path) for path in found if path.stem == "unet_sd15_raw"]
    parts += ["\n", VIEW, _run("view.py", *unet)]
    PAGE.write_text("".join(parts))


def _run(script: str, *arguments: str) -> str:
    """What a benchmark prints."""
    print(script, *arguments, file=sys.stderr)
    command = [sys.executable, str(HERE / script), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _without_head(table: str, *unwanted: str) -> list[str]:
    """The rows of a table, to go below those of another with the same head."""
    rows = table.splitlines(keepends=True)[2:]
    return [row for row in rows if not any(row.startswith(f"| {name} ") for name in unwanted)]


def _machine() -> str:
    names = ("onnx", "onnxruntime", "torch", "numpy")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    today = datetime.datetime.now(datetime.UTC).date()
    return (
        f"Machine: {_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB; {platform.system()}; "
        f"Python {platform.python_version()}, {versions}; {today}."
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
