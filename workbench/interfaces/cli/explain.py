"""The command `explain`: what a pass does, with examples; on a model, where it acts and what it refuses."""

from __future__ import annotations

import argparse

from workbench.interfaces.cli.arguments import (
    limit_arguments,
    load_chosen,
    model_arguments,
    opset_argument,
    options_of,
    pipeline_text,
    target_argument,
)
from workbench.interfaces.cli.exit_codes import DONE
from workbench.interfaces.cli.printing import say, warn
from workbench.rewrite.core.exactness import DEFAULT_MODE, MODES

HELP = "say what a pass does, with examples; on a model, where it acts and what it refuses"
EXAMPLES = (
    "fold_batchnorm",
    "fuse_conv model.onnx --passes fold_batchnorm   # where it acts, and why not elsewhere",
)
DETAILS = """
Without a model: the cases of the pass, its options, small graphs before and after, and what its rules refuse. On a
model: how many nodes the pass considered, on how many it acted, and the reasons at the others, each with the number of
its nodes and their first names. `saturate_algebra` says it of each region that stays.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("pass_name", metavar="PASS")
    model_arguments(command)
    command.add_argument("--passes", type=pipeline_text, default=(), metavar="a,b,c", help="passes to run before")
    target_argument(command)
    help_text = f"how exact rewrites are (default: {DEFAULT_MODE})"
    command.add_argument("--mode", choices=tuple(MODES), default=DEFAULT_MODE, help=help_text)
    command.add_argument("--option", action="append", default=[], metavar="pass.field=value", help="a pass's option")
    help_text = "an opset that is not raised: keep (the file's), newest, or a number (default: none)"
    command.add_argument("--opset", type=opset_argument, metavar="keep|newest|N", help=help_text)
    limit_arguments(command)


def run(chosen: argparse.Namespace) -> int:
    from workbench.interfaces.api import explain

    if chosen.model is None and chosen.torch is None:
        print(explain(chosen.pass_name), end="")
        return DONE
    return _on_model(chosen)


def _on_model(chosen: argparse.Namespace) -> int:
    """Print what the pass considered, and its refusals grouped by reason."""
    from workbench.interfaces.api import optimize
    from workbench.pipeline.registry.pass_choice import choose
    from workbench.planning.layout.profile import load_profile
    from workbench.presentation.explanations.refusals import considered, refusal_lines
    from workbench.rewrite import PassContext

    names = [*([chosen.passes] if chosen.passes else []), chosen.pass_name]
    options = options_of(chosen.option)
    pass_ = choose(names, options=options).passes[-1]
    graph = load_chosen(chosen)
    limits = {"opset": chosen.opset, "grow": chosen.grow, "keep": chosen.keep}
    history = optimize(graph, names, target=chosen.target, options=options, mode=chosen.mode, **limits)
    context = PassContext(load_profile(chosen.target), mode=chosen.mode, limits=history.limits)
    result = considered(history[-1], pass_, history.graph, context)
    say(f"{chosen.pass_name}: {result.sentence}")
    for line in refusal_lines(result):
        say(line)
    warn(graph.warnings)
    return DONE
