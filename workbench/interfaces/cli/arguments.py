"""Arguments shared by several commands, and the objects that they describe."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import UserError
from workbench.formats.io.dims import parse_dims
from workbench.formats.io.errors import LoadError
from workbench.formats.io.model_files import files_of
from workbench.formats.opsets.written import KEEP, NEWEST, Opset
from workbench.ir import Graph
from workbench.planning.layout.declared import parse_layouts
from workbench.planning.layout.infer import declare
from workbench.planning.layout.profile import machine_target
from workbench.rewrite.core.limits import GROW
from workbench.support.files import check_outputs


def check_writes(
    outputs: Sequence[str | None], models: Sequence[str | None], others: Sequence[str | None] = ()
) -> None:
    """Raise UserError if an output would replace a file that is read, such as one with the weights of a model.

    models: their external weights are checked too. others: further files that are read.
    """
    check_outputs(outputs, [*models, *others])
    written = [file for path in outputs if path for file in (path, f"{path}.data")]
    existing = {os.path.realpath(file): file for file in written if os.path.exists(file)}
    for model in models if existing else ():
        replaced = _weight_files(model) & existing.keys()
        if replaced:
            raise UserError(
                f"'{existing[min(replaced)]}' has weights of '{model}', which would be lost; write to another file"
            )


def _weight_files(model: str | None) -> set[str]:
    """The real paths of a model's external data; none if it cannot be read, which loading reports."""
    if model is None:
        return set()
    try:
        return {os.path.realpath(file) for file in files_of(Path(model))[1:]}
    except LoadError:
        return set()


TARGET_DEFAULT = "default: cuda where there is an NVIDIA GPU, else cpu"


def target_argument(command: argparse.ArgumentParser, about: str = "") -> None:
    """Add the target profile. about: what it is for, where that is not the command itself."""
    help_text = f"target profile{about} ({TARGET_DEFAULT})"
    command.add_argument("--target", default=machine_target(), metavar="NAME", help=help_text)


def measure_arguments(command: argparse.ArgumentParser) -> None:
    """Add device, backends, element types, repetitions and limits."""
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to run (default: cpu)")
    command.add_argument(
        "--backend",
        type=backends_of,
        default=("torch",),
        metavar="a,b",
        help="torch (default), cuda-graphs, torch-compile, torch-compile-autotuned, fused, arena, streams, onnxruntime",
    )
    command.add_argument(
        "--dtype", type=names_of, metavar="a,b", help="float32 (default), tf32, mixed, float16, bfloat16"
    )
    command.add_argument(
        "--repeat",
        type=at_least_one,
        metavar="N",
        help="runs of each (default: until each median is known to 1 %%)",
    )
    command.add_argument("--cold", action="store_true", help="also time runs on an emptied cache")
    command.add_argument(
        "--time-limit", type=positive, default=600.0, metavar="S", help="seconds that a job may take (default: 600)"
    )
    command.add_argument("--memory-limit", type=positive, metavar="GB", help="memory that a job may use (default: all)")


def model_arguments(command: argparse.ArgumentParser, several: bool = False) -> None:
    """Add a model, or several, from a file or a torch program, with dims and the layouts of inputs."""
    name, nargs = ("models", "*") if several else ("model", "?")
    command.add_argument(name, nargs=nargs, metavar="MODEL", help=".onnx (.gz too), .pt2, ONNX text")
    command.add_argument("--torch", metavar="package.module:factory", help="a torch program instead of a file")
    dims_argument(command)
    help_text = "turn inputs with a default value into constants, which passes can use"
    command.add_argument("--freeze-defaults", action="store_true", help=help_text)
    help_text = "the layout of an input, if it does not follow from the file: NCHW, NHWC, HWOI, ...; once per input"
    command.add_argument("--input-layout", action="append", default=[], metavar="x=NHWC", help=help_text)


def dims_argument(command: argparse.ArgumentParser) -> None:
    """Add values for symbolic dims."""
    help_text = "symbolic dims, for running and measuring; a file that is written keeps its symbols"
    command.add_argument("--dims", default="", metavar="N=1,H=320", help=help_text)


def on_argument(command: argparse.ArgumentParser) -> None:
    """Add where to run."""
    help_text = "run on Ray: `ray` starts it on this machine, HOST:PORT uses a cluster (default: here, without Ray)"
    command.add_argument("--on", metavar="ray|HOST:PORT", help=help_text)


def input_arguments(command: argparse.ArgumentParser) -> None:
    """Add the inputs to run on."""
    command.add_argument("--inputs", metavar="I.npz", help="your inputs (default: random ones)")
    command.add_argument("--seed", type=seed, default=0, help="seed of the inputs (default: 0)")


def comparison_arguments(command: argparse.ArgumentParser) -> None:
    """Add the inputs on which two graphs are compared."""
    help_text = "your inputs, or a folder of such files, one comparison each (default: random ones of several kinds)"
    command.add_argument("--inputs", metavar="I.npz", help=help_text)
    command.add_argument("--seed", type=seed, default=0, help="seed of the inputs (default: 0)")
    help_text = "compare on so many random inputs (default: 3, and more where time allows it)"
    command.add_argument("--runs", type=at_least_one, metavar="N", help=help_text)


def limit_arguments(command: argparse.ArgumentParser) -> None:
    """Add what rules must not do, besides the opset."""
    help_text = (
        f"how many times larger rewrites may make the file (default: {GROW:g}); force=true of a pass overrules it"
    )
    command.add_argument("--grow", type=positive, default=GROW, metavar="F", help=help_text)
    help_text = "a node that rules must not remove, or a weight that nodes must keep reading; may be repeated"
    command.add_argument("--keep", action="append", default=[], metavar="NAME", help=help_text)


def backends_of(text: str) -> tuple[str, ...]:
    """Backends, separated by commas; former names are read too."""
    from workbench.run.measurement.variants import current_backend

    return tuple(map(current_backend, names_of(text)))


def names_of(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list. Like all types here, it raises ArgumentTypeError."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise argparse.ArgumentTypeError("the list is empty; name at least one")
    return names


def pipeline_text(text: str) -> str:
    """The text of a pipeline that is not empty; what it names is read later, with the user's own passes."""
    if not text.strip(" ,"):
        raise argparse.ArgumentTypeError("the list is empty; name at least one")
    return text


def precision_type(text: str) -> str:
    """An element type that precision strategies write, or another word, which argparse refuses."""
    if text == "int8":
        raise argparse.ArgumentTypeError(
            "precision strategies do not write int8; run the pass ort_quantize_static, and leave out what "
            "`precision MODEL --type int8 --max-error E` lists"
        )
    return text


def positive(text: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, not '{text}'")
    return number


def at_least_one(text: str) -> int:
    """An integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1, not {text}")
    return int(text)


def seed(text: str) -> int:
    """An integer of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 up, not '{text}'")
    return int(text)


# ---- from arguments to objects ------------------------------------------------------------------


def load_chosen(chosen: argparse.Namespace) -> Graph:
    """The model of the arguments of `model_arguments`. Raises UserError."""
    from workbench.formats.io import load_model, load_torch

    if (chosen.model is None) == (chosen.torch is None):
        raise UserError("give either a model file or --torch package.module:factory")
    dims = parse_dims(chosen.dims)
    layouts = parse_layouts(chosen.input_layout)
    graph = (
        load_torch(chosen.torch, dims)
        if chosen.torch
        else load_model(chosen.model, dims, freeze_defaults=chosen.freeze_defaults)
    )
    declare(graph, layouts)
    return graph


def options_of(pairs: Sequence[str]) -> dict[str, str]:
    """The values of --option by "pass.field". Raises UserError."""
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--option takes pass.field=value, not '{pair}'")
        options[key] = value
    return options


def opset_argument(text: str) -> Opset:
    """`keep`, `newest` or a number."""
    if text in (KEEP, NEWEST):
        return text
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be {KEEP}, {NEWEST} or a whole number, not '{text}'")
    return int(text)


def verifier_of(graph: Graph, inputs: str | None, seed: int, given: Collection[str], **how: Any) -> Any:
    """The verifier that compares with the graph on the inputs of `input_arguments`. given: dims that the user bound.

    how: `form`, `runs` and `patient` of `Verifier`.
    """
    from workbench.evidence.verification.verifier import Verifier
    from workbench.run.inputs import read_input_files

    tensors = None if inputs is None else list(read_input_files(inputs, graph))
    return Verifier(graph, tensors, seed, given=given, **how)
