"""A history's certificate as a file: the model, the log, the output, and which bounds are asked of it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from onnx import parser

from workbench.errors import UserError
from workbench.evidence.certification.bounds import asked_bounds
from workbench.evidence.certification.edits import difference_of, logged_rewrite
from workbench.evidence.certification.flat import Json
from workbench.formats.io.kinds import ONNX, TEXT, TORCH, kind_of
from workbench.formats.io.model_files import weight_locations
from workbench.formats.io.onnx_file import take_defaults
from workbench.formats.io.proto_file import open_proto
from workbench.ir import Graph
from workbench.ir.from_proto import from_proto
from workbench.planning.memory.orders import FILE_ORDER
from workbench.planning.memory.planning import MemoryPlan
from workbench.rewrite import Exactness, History, Step
from workbench.rewrite.core.rule import AppliedRewrite
from workbench.support.files import write_text

WRITTEN_VERSION = 3


class NoCertificateError(UserError):
    """There is nothing to certify, or no file that it could be checked against."""


def check_certifiable(model: str | None) -> None:
    """Raises NoCertificateError if a certificate cannot name this model's file."""
    kind = TORCH if model is None else kind_of(Path(model))
    if kind not in (ONNX, TEXT):
        form = "a torch program" if kind == TORCH else f"packed as {kind}"
        raise NoCertificateError(
            f"a certificate begins with the nodes of an ONNX file, and this model is {form}; export it as .onnx first"
        )


def write_certificate(
    history: History, model: str | Path, output: str | Path, path: str | Path, plan: MemoryPlan | None = None
) -> int:
    """Write the certificate of a history from the file `model` to the file `output`; returns its bytes.

    plan: the plan of the memory of `history.graph`.
    Raises NoCertificateError if a step failed its verification or quantized, and UserError if the file cannot be
    written.
    """
    if history.failed is not None:
        raise NoCertificateError(
            f"there is no certificate, since verification failed at {history.failed.pass_name}; leave that pass out"
        )
    quantizer = next((step.pass_name for step in history.steps if _is_quantized(step)), None)
    if quantizer is not None:
        raise NoCertificateError(
            "a certificate says that the output computes the same, and a quantized model computes other numbers; leave"
            f" {quantizer} out"
        )
    check_certifiable(str(model))
    if plan is not None and plan.sharing.order != FILE_ORDER:
        raise NoCertificateError(
            f"a certificate has a plan for the order of the file, and this one is for '{plan.sharing.order}'; write the"
            " file in another order first, with --passes order_for_memory"
        )
    content = _content(history, Path(model), Path(output), plan)
    content["digest"] = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return write_text(path, json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n")


def _is_quantized(step: Step) -> bool:
    return any(rewrite.exactness is Exactness.QUANTIZED for rewrite in step.rewrites)


def _content(history: History, model: Path, output: Path, plan: MemoryPlan | None) -> Json:
    graph = history.initial.copy()
    frozen = not graph.kept.defaults
    steps: list[Json] = [_frame("loading", difference_of(_as_written(model, frozen), graph))]
    for step in history.steps[1:]:
        rewrites = []
        for rewrite in step.rewrites:
            inverse = graph.apply(rewrite.edit)
            rewrites.append({**_rule(rewrite), "edit": logged_rewrite(graph, inverse)})
        steps.append({"pass": step.pass_name, "rewrites": rewrites})
    written = _as_written(output, frozen)
    steps.append(_frame("exporting", difference_of(graph, written)))
    return {
        "format": "graph-workbench certificate",
        "version": WRITTEN_VERSION,
        "model": _file(model),
        "output": _file(output),
        "mode": history.mode,
        "dims": dict(history.initial.dims),
        "steps": steps,
        "bounds": asked_bounds(history, written, plan),
    }


def _frame(name: str, edit: Json) -> Json:
    """The step of loading, before the first pass, or of exporting, after the last."""
    return {"pass": name, "rewrites": [{"edit": edit}] if edit else []}


def _rule(rewrite: AppliedRewrite) -> Json:
    """The name of the rule, by which the checker names the rewrite."""
    return {} if rewrite.rule is None else {"rule": f"{rewrite.pass_name}.{rewrite.rule.name}"}


def _as_written(path: Path, frozen: bool) -> Graph:
    """The graph of the file before loading changes it. frozen: whether default values of inputs are constants."""
    if kind_of(path) == TEXT:
        return from_proto(parser.parse_model(path.read_text(encoding="utf-8")))
    opened = open_proto(path)
    take_defaults(opened.model, frozen)
    return from_proto(opened.model, opened.read_weight)


def _file(path: Path) -> dict[str, Any]:
    """The SHA-256 of a file and of its external weight files."""
    external = {location: _sha256(path.parent / location) for location in sorted(weight_locations(path))}
    return {"sha256": _sha256(path), "external": external}


def _sha256(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
