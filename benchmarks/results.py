"""Run every benchmark and write docs/results.md: `python benchmarks/results.py [FOLDER]` (an hour; `--only PART`: one).

FOLDER: real models (`*.onnx`) that are taken beside the samples. It needs a Chromium.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import onnx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.simplify_models import bert_of  # noqa: E402

BEFORE_DECLARED_RULES = "3e820f1"  # of git, 2026-11-23
PAGE = HERE.parent / "docs" / "results.md"

HEAD = """# Results

Written by `python benchmarks/results.py`; every number here was measured by it, the bad ones too.

Under each table stands on which machine, and when. Other work on the machine moves times; compare within one table,
not between tables or machines.
Nothing here ran on a GPU: none was at hand. With `--device cuda`, `benchmarks/layouts.py`, `benchmarks/running.py` and
`benchmarks/resnet101.py` print on one what they print here: what a layout gains, running, ResNet-101.
"""

ENGINE = """## The engine

Each command is a process of its own, started {repeat} times, from the shell's prompt to its end.
Peak memory is the largest resident set of the whole process, for models of 20 MB and more as a multiple of the file
too. Of the model is what it is over the same command's on a model of two nodes: the rest is Python, numpy, onnx and,
where ONNX Runtime folds something (what NumPy would round otherwise), ONNX Runtime. Beside the models of 20 MB and more
stands what the onnx package alone takes to load, check, infer shapes and save.

"""

VERIFIED = """## What it costs to be sure

CPU seconds of `optimize --preset simplify`, all processes counted: not verified, the end compared with ONNX Runtime on
the original file (the default), every step compared; and of one run of the model in ONNX Runtime, opening it counted
in (`benchmarks/verified.py`), once each. The bound is 1.5 times the first, and three runs.

"""

SIMPLIFY = """## Simplifying, beside other tools

The preset `simplify` in its default mode `ieee`, onnxsim, onnxslim, onnxscript and ONNX Runtime's basic level, by
turns; `benchmarks/simplify.py`, whose head says what each column is, installs them in an environment of their own.
Bold is the fewest nodes, and an error above 1e-6. A tool that fails or takes over 300 s has a peak all the same: of
what it took until then.

"""

GROWING = """
BERTs of more nodes as TorchScript exports them, with symbolic batch and sequence, three times each. (Of 20,000 nodes
onnxscript did not end in 300 s; `benchmarks/simplify.py --scale 10000 20000`.)

"""

GROWTH_OF_ENGINE = """## How the engine's time grows

CPU seconds of `optimize --preset simplify --no-verify`, a process each, its start counted in
(`benchmarks/growth.py`). "Growth" is how many times the CPU seconds grew over how many times the nodes did: 1 is
linear, and below 1 it is what the start of the process takes.

"""

REVISIONS = """## What declared rules cost

The tree before rules were written as equations and as graphs ({before}) and this one simplify each model by turns
(`benchmarks/revisions.py`, whose head says what each column is).

"""

LARGE = """## A model of 3 GB

12 products of 8,192 times 8,192, their weights beside the model; `python benchmarks/simplify.py --large`.

"""

ROUNDING = """## How many digits float32 holds

Where simplifying moves a result by more than 1e-6 of it, the original is itself further than that from the same network
computed in float64, and the simplified one about as far or nearer; `benchmarks/rounding.py`, whose head says how it is
measured. Of the generated BERTs, bert_5000 is the only one that is moved so far.

"""

STRATEGIES = """## Transposes that each layout strategy leaves

Transposes of activations at run time, in brackets the elements that they move; the default preset, weights not counted.
A strategy can leave more than it found: only `optimal`, `optimal-any-order` and `blocked` weigh everything together.
`measured` goes by times taken on this machine, so its row is another elsewhere.

"""

FUSION = """## Memory traffic of groups

Bytes that operators read and write in one run: each alone, in the groups of `fuse_groups`, and at the proven minimum of
`fuse_minimum` under the same rules, under wider ones, and if several results may leave a group, with seconds of finding
groups and proof (`benchmarks/fusion.py`). Where a bound is named, the minimum is not proved within 60 s. It is a count,
not a time: no kernel is fused yet.

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


RUNNING = """## Running ResNet-50, backends and precisions

The onnx package's `light_resnet50` with random weights, all variants of a table by turns (`benchmarks/running.py`).
`ratio` is to the first row; "first run" holds compiling; peak memory is what our executor counts of values and weights,
for compiled runs and ONNX Runtime the growth of the process. The sum of operators is of runs that time each one.
**CUDA graphs, CUDA's allocator and every GPU figure are missing**: `python benchmarks/running.py --device cuda` makes
them, `python -m workbench matrix --plan oneflow --device cuda` OneFlow's table.

"""

EXTENDED = """## Written for ONNX Runtime, beside its own extended level

Nodes of the file, of what ONNX Runtime's extended level makes of it, and of what `--preset simplify --export-for
onnxruntime` writes; and milliseconds of one run on its CPU provider by turns, batch 1, all threads: the original file
at the extended level, ours with all of ONNX Runtime's optimizations off ("none") and at the extended level
(`benchmarks/extended.py`, whose head says how). The error is the largest of our file over the original, both
unoptimized. The BERTs are small and have random weights; bert_12l_raw is a real one.

"""

BACKENDS = """## Torch's backends beside ONNX Runtime

One row a model, all its columns by turns, a process for each backend (`benchmarks/backends.py`), float32, batch 1, all
threads: medians of the model as loaded by torch and by ONNX Runtime with all its optimizations, and of what `simplify`
makes of it by torch-compile, by `fused` and ("of ours") by ONNX Runtime. "best of torch" is the fastest of the three
over ONNX Runtime on the model as loaded, "ours" ONNX Runtime's time on our file over its time on the original, with the
interval of 95 %. "groups" says by what `fused` runs them.

What is lost, by torch's profiler on one core: convolutions take most of every row, and ONNX Runtime computes them on
blocked channels (NCHWc), oneDNN channels last; a convolution in groups with a window of one element (ShuffleNet) is a
slow call of oneDNN; small convolutions (PP-OCR) take 15 to 25 microseconds each to prepare their call.

"""

BESIDE = """## ONNX Runtime alone, and by turns with torch

Each round measures a model by ONNX Runtime alone, and then by turns with torch, each backend in a process of its own
(`benchmarks/beside.py`). The ratio is by turns to alone, over rounds; where its interval holds 1, a backend is as quick
beside another one as it is alone.

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


@dataclass(frozen=True)
class Chosen:
    """folder: of real models; real: those that are no samples; repeat: how often each command is started."""

    folder: Path | None
    repeat: int

    @property
    def found(self) -> list[Path]:
        return [] if self.folder is None else sorted(self.folder.resolve().glob("*.onnx"))

    @property
    def real(self) -> list[str]:
        samples = {p.name for p in (HERE.parent / "sample_models").glob("*.onnx")}
        return [str(path) for path in self.found if path.name not in samples]


def engine(chosen: Chosen) -> str:
    repeat = ("--repeat", str(chosen.repeat))
    table = _run("engine.py", *repeat)
    more = _without_head(_run("engine.py", *repeat, *chosen.real)) if chosen.real else []
    return "".join((ENGINE.format(repeat=chosen.repeat), table, *more))


def verified(chosen: Chosen) -> str:
    more = _without_head(_run("verified.py", "--repeat", "1", *chosen.real)) if chosen.real else []
    return "".join((VERIFIED, _run("verified.py", "--repeat", "1"), *more))


def simplify(chosen: Chosen) -> str:
    folder = [] if chosen.folder is None else [str(chosen.folder)]
    table = _run("simplify.py", "--repeat", "1", *folder)
    scaled = _run("simplify.py", "--repeat", "3", "--scale", "1100", "5000")
    return SIMPLIFY + table + GROWING + scaled


def growth(chosen: Chosen) -> str:
    return GROWTH_OF_ENGINE + _run("growth.py")


def revisions(chosen: Chosen) -> str:
    more = _without_head(_run("revisions.py", BEFORE_DECLARED_RULES, *chosen.real)) if chosen.real else []
    return "".join((REVISIONS.format(before=BEFORE_DECLARED_RULES), _run("revisions.py", BEFORE_DECLARED_RULES), *more))


def large(chosen: Chosen) -> str:
    return LARGE + _run("simplify.py", "--repeat", "1", "--large")


def rounding(chosen: Chosen) -> str:
    with tempfile.TemporaryDirectory() as folder:
        generated = Path(folder) / "bert_5000.onnx"
        onnx.save(bert_of(5000), generated)
        return ROUNDING + _run("rounding.py", *chosen.real, str(generated))


def strategies(chosen: Chosen) -> str:
    more = _without_head(_run("strategies.py", *chosen.real)) if chosen.real else []
    return "".join((STRATEGIES, _run("strategies.py"), *more))


def minimum(chosen: Chosen) -> str:
    counts, growth = _run("minimum.py").split("\n\n")
    return "".join((MINIMUM, counts, "\n", GROWTH, "\n", growth))


def fusion(chosen: Chosen) -> str:
    more = _without_head(_run("fusion.py", *chosen.real)) if chosen.real else []
    return "".join((FUSION, _run("fusion.py"), *more))


def layouts(chosen: Chosen) -> str:
    tables = ((batch, _run("layouts.py", "--batch", str(batch)).lstrip("\n")) for batch in (1, 2))
    return "\n".join(LAYOUTS.format(batch=batch) + table for batch, table in tables)


def resnet101(chosen: Chosen) -> str:
    return RESNET_101 + _run("resnet101.py", "--batches", "1", "--dtype", "float32", "--repeat", "10")


def running(chosen: Chosen) -> str:
    return RUNNING + _run("running.py")


def backends(chosen: Chosen) -> str:
    more = _without_head(_run("backends.py", *chosen.real)) if chosen.real else []
    table, rest = _run("backends.py").split("\n\n", 1)
    rows = [row for row in more if row.startswith("|")]
    return "".join((BACKENDS, table, "\n", *rows, "\n", rest))


def extended(chosen: Chosen) -> str:
    bert = [str(path) for path in chosen.found if path.stem == "bert_12l_raw"]
    return EXTENDED + _run("extended.py", *bert)


def beside(chosen: Chosen) -> str:
    return BESIDE + _run("beside.py")


def view(chosen: Chosen) -> str:
    unet = [str(path) for path in chosen.found if path.stem == "unet_sd15_raw"]
    return VIEW + _run("view.py", *unet)


PARTS = (
    engine,
    verified,
    simplify,
    growth,
    revisions,
    large,
    rounding,
    strategies,
    minimum,
    fusion,
    layouts,
    running,
    backends,
    extended,
    beside,
    resnet101,
    view,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", choices=[part.__name__ for part in PARTS], help="the other parts stay as they are")
    given = parser.parse_args()
    chosen = Chosen(given.folder, given.repeat)
    written = _parts_of(PAGE.read_text()) if given.only else {}
    for part in PARTS:
        if given.only in (None, part.__name__):
            written[part.__name__] = f"{part(chosen).rstrip()}\n\nMeasured {_today()} on {_machine()}; {_versions()}.\n"
    marked = (f"{_mark(part.__name__)}\n{written[part.__name__]}" for part in PARTS if part.__name__ in written)
    PAGE.write_text("\n".join((HEAD, *marked)))


def _mark(name: str) -> str:
    return f"<!-- {name} -->"


def _parts_of(page: str) -> dict[str, str]:
    """What stands behind each mark."""
    pieces = re.split(r"^<!-- (\w+) -->\n", page, flags=re.MULTILINE)[1:]
    return {name: text.rstrip("\n") + "\n" for name, text in zip(pieces[::2], pieces[1::2], strict=True)}


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
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB; {platform.system()}; "
        f"Python {platform.python_version()}"
    )


def _versions() -> str:
    return ", ".join(f"{name} {version(name)}" for name in ("onnx", "onnxruntime", "torch", "numpy"))


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
