"""Run every benchmark and write docs/results.md: `python benchmarks/results.py [FOLDER]` (an hour; `--only PART`: one).

FOLDER: real models (`*.onnx`), measured besides the samples. It needs a Chromium.
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
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import onnx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import benchmarks.results_heads as heads  # noqa: E402
from benchmarks.gpu_section import section  # noqa: E402
from benchmarks.results_summary import summary  # noqa: E402
from benchmarks.simplify_models import bert_of  # noqa: E402

BEFORE_DECLARED_RULES = "3e820f1"  # of git, 2026-11-23
PAGE = HERE.parent / "docs" / "results.md"


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


def engine(command_line: CommandLine) -> str:
    repeat = ("--repeat", str(command_line.repeat))
    table = _run("engine.py", *repeat)
    more = _without_head(_run("engine.py", *repeat, *command_line.real)) if command_line.real else []
    return "".join((heads.ENGINE.format(repeat=command_line.repeat), table, *more))


def verified(command_line: CommandLine) -> str:
    more = _without_head(_run("verified.py", "--repeat", "1", *command_line.real)) if command_line.real else []
    return "".join((heads.VERIFIED, _run("verified.py", "--repeat", "1"), *more))


def sound(command_line: CommandLine) -> str:
    return heads.SOUND + _run("sound.py")


def certificates(command_line: CommandLine) -> str:
    table = _run("certificates.py")
    more = _without_head(_run("certificates.py", "--repeat", "1", *command_line.real)) if command_line.real else []
    return "".join((heads.CERTIFICATES, table, *more))


def simplify(command_line: CommandLine) -> str:
    folder = [] if command_line.folder is None else [str(command_line.folder)]
    table = _run("simplify.py", "--repeat", "1", *folder)
    scaled = _run("simplify.py", "--repeat", "3", "--scale", "1100", "5000")
    return heads.SIMPLIFY + table + heads.GROWING + scaled


def growth(command_line: CommandLine) -> str:
    return heads.GROWTH_OF_ENGINE + _run("growth.py")


def second_runs(command_line: CommandLine) -> str:
    return heads.SECOND_RUNS + _run("second_runs.py", *_models(command_line))


def written(command_line: CommandLine) -> str:
    return heads.WRITTEN + _run("written.py", *_models(command_line))


def waiting(command_line: CommandLine) -> str:
    return heads.WAITING + _run("waiting.py")


def opens(command_line: CommandLine) -> str:
    return heads.OPENS + _run("opens.py")


def revisions(command_line: CommandLine) -> str:
    more = _without_head(_run("revisions.py", BEFORE_DECLARED_RULES, *command_line.real)) if command_line.real else []
    head = heads.REVISIONS.format(before=BEFORE_DECLARED_RULES)
    return "".join((head, _run("revisions.py", BEFORE_DECLARED_RULES), *more))


def large(command_line: CommandLine) -> str:
    return heads.LARGE + _run("simplify.py", "--repeat", "1", "--large")


def rounding(command_line: CommandLine) -> str:
    with tempfile.TemporaryDirectory() as folder:
        generated = Path(folder) / "bert_5000.onnx"
        onnx.save(bert_of(5000), generated)
        return heads.ROUNDING + _run("rounding.py", *command_line.real, str(generated))


def strategies(command_line: CommandLine) -> str:
    more = _without_head(_run("strategies.py", *command_line.real)) if command_line.real else []
    return "".join((heads.STRATEGIES, _run("strategies.py"), *more))


def minimum(command_line: CommandLine) -> str:
    counts, growth = _run("minimum.py").split("\n\n")
    return "".join((heads.MINIMUM, counts, "\n", heads.GROWTH, "\n", growth))


def saturation(command_line: CommandLine) -> str:
    more = _without_head(_run("saturation.py", *command_line.real)) if command_line.real else []
    return "".join((heads.SATURATION, _run("saturation.py"), *more))


def fusion(command_line: CommandLine) -> str:
    more = _without_head(_run("fusion.py", *command_line.real)) if command_line.real else []
    return "".join((heads.FUSION, _run("fusion.py"), *more))


def layouts(command_line: CommandLine) -> str:
    tables = ((batch, _run("layouts.py", "--batch", str(batch)).lstrip("\n")) for batch in (1, 2))
    return "\n".join(heads.LAYOUTS.format(batch=batch) + table for batch, table in tables)


def resnet101(command_line: CommandLine) -> str:
    return heads.RESNET_101 + _run("resnet101.py", "--batches", "1", "--dtype", "float32", "--repeat", "10")


def running(command_line: CommandLine) -> str:
    return heads.RUNNING + _run("running.py")


def overhead(command_line: CommandLine) -> str:
    return heads.OVERHEAD + _run("overhead.py")


def backends(command_line: CommandLine) -> str:
    more = _without_head(_run("backends.py", *command_line.real)) if command_line.real else []
    table, rest = _run("backends.py").split("\n\n", 1)
    rows = [row for row in more if row.startswith("|")]
    return "".join((heads.BACKENDS, table, "\n", *rows, "\n", rest))


def extended(command_line: CommandLine) -> str:
    bert = [str(path) for path in command_line.files if path.stem == "bert_12l_raw"]
    return heads.EXTENDED + _run("extended.py", *bert)


def beside(command_line: CommandLine) -> str:
    return heads.BESIDE + _run("beside.py")


def view(command_line: CommandLine) -> str:
    unet = [str(path) for path in command_line.files if path.stem == "unet_sd15_raw"]
    return heads.VIEW + _run("view.py", *unet)


def first_minute(command_line: CommandLine) -> str:
    return heads.FIRST_MINUTE + _run("first_minute.py")


def memory(command_line: CommandLine) -> str:
    table, machine = _run("memory.py", *_named(command_line, "bert_12l_raw", "unet_sd15_raw"), "--and-light").split(
        "\n\n", 1
    )
    orders = heads.ORDERS + _run("memory.py", "--orders")
    instances = "" if command_line.instances is None else _run("memory.py", "--minimalloc", str(command_line.instances))
    return "".join((heads.MEMORY, table, "\n\n", machine, orders, heads.INSTANCES if instances else "", instances))


def _named(command_line: CommandLine, *stems: str) -> list[str]:
    return [str(path) for path in command_line.files if path.stem in stems]


def peaks(command_line: CommandLine) -> str:
    return heads.PEAKS + _run("peaks.py", *_named(command_line, "unet_sd15_raw"))


def lanes(command_line: CommandLine) -> str:
    return heads.LANES + _run("lanes.py", *_named(command_line, "ppocrv4_det", "bert_12l_raw", "ddddocr_det_yolox"))


def reducing(command_line: CommandLine) -> str:
    return heads.REDUCING + _run("reducing.py")


def sweep(command_line: CommandLine) -> str:
    from benchmarks.sweep import DEVICES, MODELS, PIPELINES

    head = heads.SWEEP.format(models=MODELS, pipelines=PIPELINES, devices=DEVICES)
    return head + _run("sweep.py", "--repeat", "20")


def rivals(command_line: CommandLine) -> str:
    real = map(str, command_line.files)
    return "".join((heads.RIVALS, _run("rivals.py", *real), heads.RIVALS_KNOWN, _run("rivals.py", "--known")))


def tuning(command_line: CommandLine) -> str:
    return heads.TUNING + _run("tune.py")


def on_gpu(command_line: CommandLine) -> str:
    """The results of `on_gpu.py` on machines with a GPU, the newest first; nothing is run."""
    folders = sorted((HERE / "gpu_results").iterdir(), reverse=True)
    return heads.ON_GPU + "\n".join(f"### {folder.name}\n\n{section(folder)}" for folder in folders)


PARTS = (
    engine,
    verified,
    sound,
    certificates,
    simplify,
    growth,
    second_runs,
    opens,
    revisions,
    large,
    rounding,
    strategies,
    minimum,
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
    tuning,
    sweep,
    on_gpu,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--instances", type=Path, metavar="FOLDER", help="MiniMalloc's, *.csv")
    parser.add_argument("--only", choices=[part.__name__ for part in PARTS], help="the other parts stay as they are")
    arguments = parser.parse_args()
    command_line = CommandLine(arguments.folder, arguments.repeat, arguments.instances)
    texts = parts_of(PAGE.read_text()) if arguments.only else {}
    for part in PARTS:
        if arguments.only in (None, part.__name__):
            text = part(command_line).rstrip()
            origin = "" if part is on_gpu else f"\n\nMeasured {_today()} on {_machine()}; {_versions()}."
            texts[part.__name__] = f"{text}{origin}\n"
    PAGE.write_text(page_of(texts))


def page_of(texts: Mapping[str, str]) -> str:
    """The page. texts: of the parts, by name."""
    marked = (f"{_mark(part.__name__)}\n{texts[part.__name__]}" for part in PARTS if part.__name__ in texts)
    return "\n".join((heads.HEAD.format(summary=summary(texts)), *marked))


def _mark(name: str) -> str:
    return f"<!-- {name} -->"


def parts_of(page: str) -> dict[str, str]:
    """By name of a part, its text in the page."""
    pieces = re.split(r"^<!-- (\w+) -->\n", page, flags=re.MULTILINE)[1:]
    return {name: text.rstrip("\n") + "\n" for name, text in zip(pieces[::2], pieces[1::2], strict=True)}


def _run(script: str, *arguments: str) -> str:
    """The printed text of a benchmark."""
    print(script, *arguments, file=sys.stderr)
    command = [sys.executable, str(HERE / script), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _models(command_line: CommandLine) -> list[str]:
    """The real models and the samples."""
    samples = (HERE.parent / "sample_models").glob("*.onnx")
    return [*command_line.real, *map(str, sorted(samples))]


def _without_head(table: str, *unwanted: str) -> list[str]:
    """The rows of a table without its head, except those whose first cell is in `unwanted`."""
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
