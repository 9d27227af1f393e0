"""Run every benchmark and write docs/results/*.json and docs/results.md, which is drawn from them.

`python benchmarks/results.py [FOLDER]` takes an hour; `--only PART` measures one part, `--draw` nothing. FOLDER: real
models (`*.onnx`), measured besides the samples. It needs a Chromium. The title of a part and the text above its tables
are in its file, and stay when it is measured again; what depends on the arguments of a run stands beside them here.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import onnx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.gpu_section import gpu_measurement  # noqa: E402
from benchmarks.printed import Content, content_of  # noqa: E402
from benchmarks.results_page import results_page  # noqa: E402
from benchmarks.simplify_models import bert_of  # noqa: E402
from workbench.run.records.published import PublishedMeasurement, PublishedPart, published_text, read_published  # noqa: E402
from workbench.support.files import write_text  # noqa: E402

PLANTED = (  # models into which faults are planted
    *("resnet50_narrow", "ppocr_cls_v2", "basic_pitch_nmp"),
    *("bert_12l_raw", "ddddocr_det_yolox", "open_nsfw_resnet", "ppocrv4_det", "ppocrv4_rec"),
)
BEFORE_DECLARED_RULES = "3e820f1"  # of git, 2026-11-23
MUTANTS = {"solvers": 1, "ir": 3, "cuts": 6, "checker": 29}  # one in so many is tried
PAGE = HERE.parent / "docs" / "results.md"
DATA = HERE.parent / "docs" / "results"


@dataclass(frozen=True)
class CommandLine:
    """The command line. folder: of real models. repeat: the number of starts of each command. instances: the folder of
    MiniMalloc's instances. files: the models in `folder`; real: those of them that are not samples."""

    folder: Path | None
    repeat: int
    instances: Path | None

    @property
    def files(self) -> list[Path]:
        return [] if self.folder is None else sorted(self.folder.resolve().glob("*.onnx"))

    @property
    def real(self) -> list[str]:
        samples = {p.name for p in (HERE.parent / "sample_models").glob("*.onnx")}
        return [str(path) for path in self.files if path.name not in samples]


Part = Callable[[CommandLine], Content | list[PublishedMeasurement]]


def engine(command_line: CommandLine) -> Content:
    started = f"Each command was started {command_line.repeat} times."
    return [started, *_samples_and_real(command_line, "engine.py", "--repeat", str(command_line.repeat))]


def verified(command_line: CommandLine) -> Content:
    return _samples_and_real(command_line, "verified.py", "--repeat", "1")


def sound(command_line: CommandLine) -> Content:
    return _run("sound.py")


def certificates(command_line: CommandLine) -> Content:
    return _samples_and_real(command_line, "certificates.py", of_real=("--repeat", "1"))


def simplify(command_line: CommandLine) -> Content:
    folder = [] if command_line.folder is None else [str(command_line.folder)]
    larger = (
        "Larger BERTs as TorchScript exports them, with symbolic batch and sequence, three times each. (With 20,000 "
        "nodes, onnxscript did not end in 300 s; `benchmarks/simplify.py --scale 10000 20000`.)"
    )
    models = _run("simplify.py", "--repeat", "1", *folder)
    return [*models, larger, *_run("simplify.py", "--repeat", "3", "--scale", "1100", "5000")]


def growth(command_line: CommandLine) -> Content:
    return _run("growth.py")


def second_runs(command_line: CommandLine) -> Content:
    return _run("second_runs.py", *_models(command_line))


def planted(command_line: CommandLine) -> Content:
    models = [model for model in _models(command_line) if Path(model).stem in PLANTED]
    return _run("planted.py", *models, "--faults", "42")


def written(command_line: CommandLine) -> Content:
    return _run("written.py", *_models(command_line))


def waiting(command_line: CommandLine) -> Content:
    return _run("waiting.py")


def opens(command_line: CommandLine) -> Content:
    return _run("opens.py")


def revisions(command_line: CommandLine) -> Content:
    before = f"The revision before is {BEFORE_DECLARED_RULES}."
    return [before, *_samples_and_real(command_line, "revisions.py", BEFORE_DECLARED_RULES)]


def large(command_line: CommandLine) -> Content:
    return _run("simplify.py", "--repeat", "1", "--large")


def rounding(command_line: CommandLine) -> Content:
    with tempfile.TemporaryDirectory() as folder:
        generated = Path(folder) / "bert_5000.onnx"
        onnx.save(bert_of(5000), generated)
        return _run("rounding.py", *command_line.real, str(generated))


def strategies(command_line: CommandLine) -> Content:
    return _samples_and_real(command_line, "strategies.py")


def minimum(command_line: CommandLine) -> Content:
    counts, times = _run("minimum.py")
    growth_of_times = (
        "The growth of the time: residual blocks, two of three with a MatMul on NHWC values between transposes, "
        "profile `cpu`."
    )
    return [counts, growth_of_times, times]


def precision(command_line: CommandLine) -> Content:
    return _samples_and_real(command_line, "precision.py")


def precision_with_layout(command_line: CommandLine) -> Content:
    return _samples_and_real(command_line, "precision_with_layout.py")


def int8(command_line: CommandLine) -> Content:
    few = ("magika_v3_3", "ppocrv4_det", "open_nsfw_resnet", "ddddocr_det_yolox", "bert_12l_raw")
    with tempfile.TemporaryDirectory() as folder:  # each quantized operator is a run: of the UNet, of its middle block
        parts = [str(_middle_block(unet, Path(folder))) for unet in _named(command_line, "unet_sd15_raw")]
        return _run("int8.py", *_named(command_line, *few), *parts)


def _middle_block(unet: str, folder: Path) -> Path:
    """The innermost block of the UNet as a model, with the inputs that it has in a run of the whole."""
    part = folder / f"{Path(unet).stem}_middle_block.onnx"
    ends = ("--from", "add_39,ctx,unsqueeze_19,unsqueeze_21", "--to", "add_47")
    subprocess.run([sys.executable, "-m", "workbench", "extract", unet, *ends, "-o", str(part)], check=True)
    return part


def saturation(command_line: CommandLine) -> Content:
    return _samples_and_real(command_line, "saturation.py")


def fusion(command_line: CommandLine) -> Content:
    return _samples_and_real(command_line, "fusion.py")


def layouts(command_line: CommandLine) -> Content:
    return [*_run("layouts.py", "--batch", "1"), *_run("layouts.py", "--batch", "2")]


def resnet101(command_line: CommandLine) -> Content:
    return _run("resnet101.py", "--batches", "1", "--dtype", "float32", "--repeat", "10")


def running(command_line: CommandLine) -> Content:
    return _run("running.py")


def overhead(command_line: CommandLine) -> Content:
    return _run("overhead.py")


def backends(command_line: CommandLine) -> Content:
    return _samples_and_real(command_line, "backends.py")


def extended(command_line: CommandLine) -> Content:
    return _run("extended.py", *_named(command_line, "bert_12l_raw"))


def beside(command_line: CommandLine) -> Content:
    return _run("beside.py")


def view(command_line: CommandLine) -> Content:
    return _run("view.py", *_named(command_line, "unet_sd15_raw"))


def first_minute(command_line: CommandLine) -> Content:
    return _run("first_minute.py")


def memory(command_line: CommandLine) -> Content:
    plans = _run("memory.py", *_named(command_line, "bert_12l_raw", "unet_sd15_raw"), "--and-light")
    orders = (
        "The peak of live bytes in the order of the file, and in the order that `order_for_memory` finds within 20 s; "
        "`python benchmarks/memory.py --orders`."
    )
    content = [*plans, orders, *_run("memory.py", "--orders")]
    if command_line.instances is not None:
        content.append(
            "MiniMalloc's instances (capacity 1,048,576) by every planner, at most 20 s each; "
            "`python benchmarks/memory.py --minimalloc FOLDER`."
        )
        content += _run("memory.py", "--minimalloc", str(command_line.instances))
    return content


def peaks(command_line: CommandLine) -> Content:
    return _run("peaks.py", *_named(command_line, "unet_sd15_raw"))


def lanes(command_line: CommandLine) -> Content:
    return _run("lanes.py", *_named(command_line, "ppocrv4_det", "bert_12l_raw", "ddddocr_det_yolox"))


def reducing(command_line: CommandLine) -> Content:
    return _run("reducing.py")


def sweep(command_line: CommandLine) -> Content:
    return _run("sweep.py", "--repeat", "20")


def rivals(command_line: CommandLine) -> Content:
    known = (
        "Small graphs of `tests/known_wrong.py`, after public reports, on which a present tool is wrong or fails. Each "
        "tool is a pass of a pipeline, and verification names the rewrite (`benchmarks/rivals.py --known`)."
    )
    return [*_run("rivals.py", *map(str, command_line.files)), known, *_run("rivals.py", "--known")]


def mutants(command_line: CommandLine) -> Content:
    """Its exit code says whether a mutant survives without a reason, which the table says too."""
    tables = []
    for package, one_in in MUTANTS.items():
        command = [sys.executable, "-m", "tests.mutation", package, "--one-in", str(one_in)]
        print(*command[1:], file=sys.stderr)
        done = subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True)
        tables += content_of(done.stdout)
    return [replace(tables[0], rows=tuple(row for table in tables for row in table.rows))]


def tuning(command_line: CommandLine) -> Content:
    return _run("tune.py")


def on_gpu(command_line: CommandLine) -> list[PublishedMeasurement]:
    """The results of `on_gpu.py` on machines with a GPU, the newest first; nothing is run."""
    return [gpu_measurement(folder) for folder in sorted((HERE / "gpu_results").iterdir(), reverse=True)]


PARTS = (
    engine,
    verified,
    sound,
    certificates,
    simplify,
    growth,
    second_runs,
    planted,
    opens,
    revisions,
    large,
    rounding,
    strategies,
    minimum,
    precision,
    precision_with_layout,
    int8,
    saturation,
    fusion,
    layouts,
    running,
    overhead,
    waiting,
    backends,
    extended,
    written,
    beside,
    resnet101,
    view,
    first_minute,
    memory,
    peaks,
    lanes,
    reducing,
    rivals,
    mutants,
    tuning,
    sweep,
    on_gpu,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--instances", type=Path, metavar="FOLDER", help="MiniMalloc's, *.csv")
    chosen = parser.add_mutually_exclusive_group()
    names = [part.__name__ for part in PARTS]
    chosen.add_argument("--only", choices=names, help="the other parts stay as they are")
    chosen.add_argument("--draw", action="store_true", help="draw the page again, after a text in a file has changed")
    arguments = parser.parse_args()
    command_line = CommandLine(arguments.folder, arguments.repeat, arguments.instances)
    for part in PARTS:
        if not arguments.draw and arguments.only in (None, part.__name__):
            write_text(_file(part), published_text(measured(part, command_line)))
    write_text(PAGE, results_page([read_published(_file(part)) for part in PARTS]))


def measured(part: Part, command_line: CommandLine) -> PublishedPart:
    """The part, measured now, with the title and the text that its file has."""
    before = read_published(_file(part))
    if part is on_gpu:
        return replace(before, measurements=tuple(on_gpu(command_line)))
    content = tuple(part(command_line))
    return replace(before, measurements=(PublishedMeasurement(_today(), _machine(), _versions(), content),))


def _file(part: Part) -> Path:
    return DATA / f"{part.__name__}.json"


def _run(script: str, *arguments: str) -> Content:
    """What a benchmark prints."""
    print(script, *arguments, file=sys.stderr)
    command = [sys.executable, str(HERE / script), *arguments]
    return content_of(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _samples_and_real(
    command_line: CommandLine, script: str, *arguments: str, of_real: tuple[str, ...] = ()
) -> Content:
    """What a benchmark prints of the samples, with the rows of the real models in the same table.

    of_real: further arguments for the real models.
    """
    table, *rest = _run(script, *arguments)
    if command_line.real:
        more = _run(script, *arguments, *of_real, *command_line.real)[0]
        table = replace(table, rows=table.rows + more.rows)
    return [table, *rest]


def _named(command_line: CommandLine, *stems: str) -> list[str]:
    return [str(path) for path in command_line.files if path.stem in stems]


def _models(command_line: CommandLine) -> list[str]:
    """The real models and the samples."""
    samples = (HERE.parent / "sample_models").glob("*.onnx")
    return [*command_line.real, *map(str, sorted(samples))]


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB; {platform.system()}; "
        f"Python {platform.python_version()}"
    )


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("onnx", "onnxruntime", "torch", "numpy")}


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
