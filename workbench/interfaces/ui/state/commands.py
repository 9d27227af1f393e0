"""The commands and the Python code that do what a page does, for the user to copy."""

from __future__ import annotations

import shlex

from workbench.formats.opsets.written import AS_NEEDED, FileForm
from workbench.interfaces.ui.state.session import Opened, Spec
from workbench.pipeline.command_text import command_text, program_arguments
from workbench.pipeline.registry.reading import shortest_text
from workbench.planning.layout.declared import declared_layouts
from workbench.rewrite import DEFAULT_MODE
from workbench.rewrite.core.limits import GROW


def command_of(
    opened: Opened,
    spec: Spec,
    output: str = "optimized.onnx",
    verb: str = "optimize",
    verified: bool = True,
    form: FileForm = AS_NEEDED,
) -> str:
    """The command that optimizes the model and writes the result; with the verb "report", the view as HTML."""
    arguments = [*program_arguments(), verb, opened.path, "-o", output]
    arguments += ["--passes", shortest_text(spec.pipeline) or "''", "--target", spec.target]
    if spec.mode != DEFAULT_MODE:
        arguments += ["--mode", spec.mode]
    arguments += [] if spec.grow == GROW else ["--grow", f"{spec.grow:g}"]
    arguments += [word for name in spec.keep for word in ("--keep", name)]
    arguments += _model_arguments(opened)
    if spec.excluded and verified:
        arguments += ["--on-failure", "skip"]
    if not verified:
        arguments.append("--no-verify")
    for name, value in (("opset", form.opset), ("ir", form.ir), ("functions", form.functions)):
        arguments += [] if value is None else [f"--{name}", str(value)]
    arguments += [] if form.metadata else ["--no-metadata"]
    return " ".join(w if w == "''" else shlex.quote(w) for w in arguments)


def recipe_command_of(opened: Opened, recipe: str) -> str:
    """The command that optimizes the model by the recipe in a file."""
    arguments = ["optimize", opened.path, "--recipe", recipe, "-o", "optimized.onnx"]
    return command_text(*arguments, *_model_arguments(opened))


def _model_arguments(opened: Opened) -> list[str]:
    """Arguments for the dims, declared layouts and inputs that the user set."""
    arguments = []
    if opened.graph.dims:
        arguments += ["--dims", ",".join(f"{name}={size}" for name, size in opened.graph.dims.items())]
    for value, layout in declared_layouts(opened.graph).items():
        arguments += ["--input-layout", f"{value}={layout}"]
    if opened.inputs:
        arguments += ["--inputs", opened.inputs]
    elif opened.seed:
        arguments += ["--seed", str(opened.seed)]
    return arguments


def against_command_of(opened: Opened) -> str:
    """The command that writes the page Compare as HTML."""
    other = "OTHER.onnx" if opened.other is None else opened.other.path
    return command_text("report", opened.path, "-o", "difference.html", "--against", other)


def python_of(
    opened: Opened,
    spec: Spec,
    output: str = "optimized.onnx",
    verified: bool = True,
    form: FileForm = AS_NEEDED,
) -> str:
    """The Python code that optimizes the model and writes the result."""
    dims = f", dims={dict(opened.graph.dims)!r}" if opened.graph.dims else ""
    options = f", mode={spec.mode!r}" if spec.mode != DEFAULT_MODE else ""
    options += f", grow={spec.grow:g}" if spec.grow != GROW else ""
    options += f", keep={list(spec.keep)!r}" if spec.keep else ""
    options += f", opset={form.opset!r}" if form.opset is not None else ""
    chosen = {name: value for name, value in form._asdict().items() if value is not None and value is not True}
    form_options = "".join(f", {name}={value!r}" for name, value in chosen.items())
    inputs_argument = (
        f", inputs=np.load({opened.inputs!r})" if opened.inputs else f", seed={opened.seed}" if opened.seed else ""
    )
    export_code = f"wb.export(history.graph, {output!r}{form_options})"
    check = [
        f"verdict = wb.verify(graph, history.graph{inputs_argument})",
        "print(verdict.sentence)",
        "if verdict.ok is not False:",
        f"    {export_code}",
    ]
    return "\n".join(
        [
            *(["import numpy as np"] if opened.inputs and verified else []),
            "import workbench as wb",
            f"graph = wb.load({opened.path!r}{dims})",
            f"history = wb.optimize(graph, {shortest_text(spec.pipeline)!r}, target={spec.target!r}{options})",
            *(check if verified else [export_code]),
        ]
    )


def package_command_of(opened: Opened, source: str, device: str) -> str:
    """The command that compiles the exported file for a device."""
    arguments = ["package", source, "-o", _package_beside(source), "--device", device.partition(":")[0]]
    return command_text(*arguments, *_model_arguments(opened))


def package_python_of(source: str, device: str) -> str:
    """The Python code that compiles `history.graph`, which the code of `python_of` makes."""
    return f"wb.package(history.graph, {_package_beside(source)!r}, device={device!r})"


def _package_beside(source: str) -> str:
    return source.removesuffix(".onnx") + ".pt2"
