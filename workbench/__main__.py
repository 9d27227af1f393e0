"""The command line: `python -m workbench COMMAND`. The same engine and the same words as the app.

Exit codes: 0 done and verified, or not asked to; 1 a verification failed, so that no model is
written, or something that was to be measured did not run; 2 bad input; 3 done, but it could not
be verified; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import sys
from collections.abc import Sequence
from typing import Any

from workbench.imports import import_onnx_ir

import_onnx_ir()

from workbench.cli.arguments import parser_of  # noqa: E402
from workbench.errors import UserError, printable  # noqa: E402
from workbench.files import check_outputs  # noqa: E402
from workbench.io.dims import parse_dims  # noqa: E402
from workbench.ir import EditError, IllFormedError, TextError  # noqa: E402
from workbench.layout.declared import parse_layouts  # noqa: E402
from workbench.layout.infer import declare  # noqa: E402

DONE, FAILED, BAD_INPUT, UNVERIFIED = 0, 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; what it prints goes to stdout, an error as one sentence to stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that has no such letter shows its number
            stream.reconfigure(errors="backslashreplace")
    try:
        chosen = parser_of(_COMMANDS).parse_args(arguments)
        return chosen.run(chosen)
    except (UserError, EditError, IllFormedError, TextError) as error:
        print(f"workbench: {_one_line(error)}", file=sys.stderr)
        return BAD_INPUT
    except MemoryError:
        print("workbench: there is not enough memory; close other programs or use a smaller model", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("workbench: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return DONE
    except OSError as error:  # the disk is full, no more files may be opened
        place = "" if error.filename is None else f" ({error.filename})"
        print(f"workbench: the system refused: {error.strerror or error}{place}", file=sys.stderr)
        return BAD_INPUT


def _one_line(error: Exception) -> str:
    return printable(" ".join(str(error).split()))


# ---- what commands share ------------------------------------------------------------------


def _options(pairs: Sequence[str]) -> dict[str, str]:
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--option takes pass.field=value, not '{pair}'")
        options[key] = value
    return options


def _load(chosen: argparse.Namespace) -> Any:
    from workbench.io import load_model, load_torch

    if (chosen.model is None) == (chosen.torch is None):
        raise UserError("give either a model file or --torch package.module:factory")
    dims = parse_dims(chosen.dims)
    layouts = parse_layouts(chosen.input_layout)
    graph = load_torch(chosen.torch, dims) if chosen.torch else load_model(chosen.model, dims)
    declare(graph, layouts)
    return graph


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        print(f"note: {_one_line(Exception(warning))}", file=sys.stderr)


# ---- commands --------------------------------------------------------------------------


def _passes(chosen: argparse.Namespace) -> int:
    import passes as library
    from workbench.api import pass_table

    rows = pass_table()
    if chosen.json:
        print(json.dumps({"passes": rows, "presets": library.presets(), "broken": library.broken()}, indent=1))
        return DONE
    for row in rows:
        print(f"{row['name']:<28} {row['title']}")
        for field in row["options"]:
            print(f"{'':<28}   {row['name']}.{field['name']} = {field['default']}: {field['help']}")
    for name, preset in library.presets().items():
        print(f"preset {name:<21} {preset['title']}: {', '.join(preset['passes'])}")
    for name, fault in library.broken().items():
        print(f"{name:<28} cannot be used, its file does not import: {fault}", file=sys.stderr)
    return DONE


def _explain(chosen: argparse.Namespace) -> int:
    from workbench.api import explain

    print(explain(chosen.pass_name), end="")
    return DONE


def _inspect(chosen: argparse.Namespace) -> int:
    from workbench.cli.engine import inspect_command

    graph = _load(chosen)
    code = inspect_command(graph, as_json=chosen.json)
    _warn(graph.warnings)
    return code


def _optimize(chosen: argparse.Namespace) -> int:
    from workbench.cli.engine import OptimizeRequest, optimize_command
    from workbench.io.exporting import check_replaceable

    request = OptimizeRequest(**_pipeline(chosen), output=chosen.output, fix_dims=chosen.fix_dims, report=chosen.report)
    check_outputs([request.output, request.report], [chosen.model, chosen.inputs])
    check_replaceable(request.output)
    graph = _load(chosen)
    code = optimize_command(graph, request)
    _warn(graph.warnings)
    return code


def _report(chosen: argparse.Namespace) -> int:
    from workbench.cli.engine import PipelineRequest, against_command, report_command
    from workbench.io import load_model

    check_outputs([chosen.output], [chosen.model, chosen.inputs, chosen.against])
    request = PipelineRequest(**_pipeline(chosen))
    _check_no_pass(chosen)
    graph = _load(chosen)
    if chosen.against is not None:
        return against_command(graph, load_model(chosen.against), request.target, chosen.output)
    code = report_command(graph, request, chosen.output)
    _warn(graph.warnings)
    return code


_OF_PASSES = ("passes", "preset", "layout", "feed_inputs", "give_outputs", "option", "inputs")


def _check_no_pass(chosen: argparse.Namespace) -> None:
    """Words about passes mean nothing where another file is shown beside the model."""
    if chosen.against is None:
        return
    for name in _OF_PASSES:
        if getattr(chosen, name):
            raise UserError(f"--against shows two files and runs no pass; leave out --{name.replace('_', '-')}")
    if chosen.verify != "end":
        word = "--no-verify" if chosen.verify == "off" else "--verify"
        raise UserError(f"--against shows two files and runs no pass; leave out {word}")


def _pipeline(chosen: argparse.Namespace) -> dict[str, Any]:
    """The words of `_pipeline_arguments` as a `PipelineRequest` takes them."""
    return {
        "passes": None if chosen.passes is None else [p.strip() for p in chosen.passes.split(",") if p.strip()],
        "preset": chosen.preset or "default",
        "target": chosen.target,
        "layout": chosen.layout,
        "feed_inputs": chosen.feed_inputs,
        "give_outputs": chosen.give_outputs,
        "options": _options(chosen.option),
        "mode": chosen.mode,
        "inputs": chosen.inputs,
        "seed": chosen.seed,
        "given": parse_dims(chosen.dims),
        "verify": chosen.verify,
        "on_failure": chosen.on_failure,
    }


def _layouts(chosen: argparse.Namespace) -> int:
    from workbench.cli.engine import LayoutsRequest, layouts_command

    request = LayoutsRequest(
        target=chosen.target,
        inputs=chosen.inputs,
        seed=chosen.seed,
        given=parse_dims(chosen.dims),
        verify=not chosen.no_verify,
        measure=chosen.measure,
        device=chosen.device,
        as_json=chosen.json,
    )
    graph = _load(chosen)
    code = layouts_command(graph, request)
    _warn(graph.warnings)
    return code


def _verify(chosen: argparse.Namespace) -> int:
    from workbench.cli.engine import verify_command
    from workbench.io import load_model

    dims = parse_dims(chosen.dims)
    first, second = load_model(chosen.a, dims), load_model(chosen.b)
    return verify_command(first, second, inputs=chosen.inputs, seed=chosen.seed, given=dims, as_json=chosen.json)


def _bench(chosen: argparse.Namespace) -> int:
    from workbench.cli.bench import BenchRequest, bench_command, numbered
    from workbench.io import load_model

    dims = parse_dims(chosen.dims)
    check_outputs([chosen.json], [*chosen.models, chosen.inputs])
    loaded: dict[str, Any] = {}
    for path in chosen.models:
        if path not in loaded:
            loaded[path] = load_model(path, {} if loaded else dims)
    models = {label: loaded[path] for label, path in zip(numbered(chosen.models), chosen.models, strict=True)}
    request = BenchRequest(
        device=chosen.device,
        backends=chosen.backend,
        dtypes=chosen.dtype or ("float32",),
        repeat=chosen.repeat,
        cold=chosen.cold,
        time_limit=chosen.time_limit,
        memory_limit=chosen.memory_limit,
        inputs=chosen.inputs,
        seed=chosen.seed,
        given=dims,
        json=chosen.json,
    )
    return bench_command(models, request)


def _matrix(chosen: argparse.Namespace) -> int:
    from workbench.cli.matrix import MatrixRequest, matrix_command

    check_outputs([chosen.record, chosen.csv, chosen.json], chosen.models)
    words = vars(chosen)
    names = [name for name in MatrixRequest.__dataclass_fields__ if name != "dims"]
    return matrix_command(MatrixRequest(**{name: words[name] for name in names}, dims=parse_dims(chosen.dims)))


def _runs(chosen: argparse.Namespace) -> int:
    from workbench.cli.runs import RunsRequest, runs_command

    return runs_command(RunsRequest(chosen.model, chosen.json, chosen.csv, chosen.url))


_COMMANDS = {
    "passes": _passes,
    "explain": _explain,
    "inspect": _inspect,
    "optimize": _optimize,
    "report": _report,
    "layouts": _layouts,
    "verify": _verify,
    "bench": _bench,
    "matrix": _matrix,
    "runs": _runs,
}


if __name__ == "__main__":
    gc.set_threshold(100_000)  # what a command makes lives to its end: looking for cycles in it only takes time
    sys.exit(main())
