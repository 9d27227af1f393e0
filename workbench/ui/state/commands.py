"""What the pages do as a command or as Python, to be copied."""

from __future__ import annotations

import shlex

from workbench.layout.declared import declared_layouts
from workbench.opsets.written import AS_NEEDED, Wanted
from workbench.pipeline.command_text import command_text, program_words
from workbench.registry.reading import shortest_text
from workbench.rewrite import DEFAULT_MODE
from workbench.ui.state.session import Opened, Spec


def command_of(
    opened: Opened,
    spec: Spec,
    output: str = "optimized.onnx",
    verb: str = "optimize",
    verified: bool = True,
    form: Wanted = AS_NEEDED,
) -> str:
    """The equivalent command: optimize and write, or with the verb "report" the view as HTML."""
    words = [*program_words(), verb, opened.path, "-o", output]
    words += ["--passes", shortest_text(spec.pipeline) or "''", "--target", spec.target]
    if spec.mode != DEFAULT_MODE:
        words += ["--mode", spec.mode]
    words += _of_the_model(opened)
    if spec.left_out and verified:
        words += ["--on-failure", "skip"]
    if not verified:
        words.append("--no-verify")
    for name, value in form._asdict().items():
        words += [] if value is None else [f"--{name}", str(value)]
    return " ".join(w if w == "''" else shlex.quote(w) for w in words)


def recipe_command_of(opened: Opened, recipe: str) -> str:
    """The command that makes the file by a recipe's file."""
    words = ["optimize", opened.path, "--recipe", recipe, "-o", "optimized.onnx"]
    return command_text(*words, *_of_the_model(opened))


def _of_the_model(opened: Opened) -> list[str]:
    """Arguments for its dims, declared layouts and inputs, as the user set them."""
    words = []
    if opened.graph.dims:
        words += ["--dims", ",".join(f"{name}={size}" for name, size in opened.graph.dims.items())]
    for value, layout in declared_layouts(opened.graph).items():
        words += ["--input-layout", f"{value}={layout}"]
    if opened.inputs:
        words += ["--inputs", opened.inputs]
    elif opened.seed:
        words += ["--seed", str(opened.seed)]
    return words


def against_command_of(opened: Opened) -> str:
    """The command that writes what Compare shows."""
    other = "OTHER.onnx" if opened.other is None else opened.other.path
    return command_text("report", opened.path, "-o", "difference.html", "--against", other)


def python_of(
    opened: Opened,
    spec: Spec,
    output: str = "optimized.onnx",
    verified: bool = True,
    form: Wanted = AS_NEEDED,
) -> str:
    """The equivalent Python code."""
    dims = f", dims={dict(opened.graph.dims)!r}" if opened.graph.dims else ""
    more = f", mode={spec.mode!r}" if spec.mode != DEFAULT_MODE else ""
    more += f", opset={form.opset!r}" if form.opset is not None else ""
    how = "".join(f", {name}={value!r}" for name, value in form._asdict().items() if value is not None)
    given = f", inputs=np.load({opened.inputs!r})" if opened.inputs else f", seed={opened.seed}" if opened.seed else ""
    written = f"wb.export(history.graph, {output!r}{how})"
    check = [
        f"verdict = wb.verify(graph, history.graph{given})",
        "print(verdict.sentence)",
        "if verdict.ok is not False:",
        f"    {written}",
    ]
    return "\n".join(
        [
            *(["import numpy as np"] if opened.inputs and verified else []),
            "import workbench as wb",
            f"graph = wb.load({opened.path!r}{dims})",
            f"history = wb.optimize(graph, {shortest_text(spec.pipeline)!r}, target={spec.target!r}{more})",
            *(check if verified else [written]),
        ]
    )


def package_command_of(opened: Opened, source: str, device: str) -> str:
    """The command that compiles the exported file for a device."""
    words = ["package", source, "-o", _package_beside(source), "--device", device.partition(":")[0]]
    return command_text(*words, *_of_the_model(opened))


def package_python_of(source: str, device: str) -> str:
    """The Python code that compiles the result, after that which makes it."""
    return f"wb.package(history.graph, {_package_beside(source)!r}, device={device!r})"


def _package_beside(source: str) -> str:
    return source.removesuffix(".onnx") + ".pt2"
