"""The command `verify`: compares two models on the same inputs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection

from workbench.formats.io.dims import parse_dims
from workbench.interfaces.cli.arguments import comparison_arguments, dims_argument
from workbench.interfaces.cli.exit_codes import DONE, FAILED, UNVERIFIED
from workbench.interfaces.cli.printing import say
from workbench.ir import Graph
from workbench.rewrite.core.exactness import DEFAULT_MODE, MODES
from workbench.run.verdict_words import verdict_word

HELP = "compare two models on the same inputs"
EXAMPLES = ("model.onnx model.opt.onnx",)
DETAILS = """
The first is run by ONNX Runtime without its optimizations. The tolerance is that of the narrower element types of the
two, and is printed. Values inside are compared too, where a value of one file is known to be one of the other. A result
of `optimize --mode fast` is compared with --mode fast.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("a", metavar="A.onnx", help="the original")
    command.add_argument("b", metavar="B.onnx", help="the other")
    dims_argument(command)
    comparison_arguments(command)
    help_text = f"exact: no bit may differ; fast: only what is finite in A.onnx is compared (default: {DEFAULT_MODE})"
    command.add_argument("--mode", choices=tuple(MODES), default=DEFAULT_MODE, help=help_text)
    command.add_argument("--json", action="store_true", help="print JSON")


def run(chosen: argparse.Namespace) -> int:
    from workbench.formats.io import load_model

    dims = parse_dims(chosen.dims)
    first, second = load_model(chosen.a, dims), load_model(chosen.b)
    words = {"inputs": chosen.inputs, "seed": chosen.seed, "runs": chosen.runs, "mode": chosen.mode}
    return verify_command(first, second, given=dims, as_json=chosen.json, **words)


def verify_command(
    first: Graph,
    second: Graph,
    *,
    inputs: str | None,
    seed: int,
    runs: int | None,
    mode: str,
    given: Collection[str],
    as_json: bool,
) -> int:
    """Compare and print the verdict. given: dims that the user bound."""
    from workbench.evidence.verification.files import verify_files
    from workbench.run.inputs import read_input_files

    tensors = None if inputs is None else list(read_input_files(inputs, first))
    verdict = verify_files(first, second, tensors, seed, given, runs, mode)
    if as_json:
        fields = ("ok", "max_abs_error", "max_rel_error", "bit_equal", "sentence", "seconds")
        print(json.dumps({name: getattr(verdict, name) for name in fields}, indent=1))
    else:
        say(f"{verdict_word(verdict)}: {verdict.sentence}")
    return {True: DONE, False: FAILED, None: UNVERIFIED}[verdict.ok]
