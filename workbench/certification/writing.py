"""A history's certificate as a file: the model, the log with the evidence of each step, and the output."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from onnx import parser

from workbench.certification.bounds import step_evidence
from workbench.certification.edits import difference_of, logged_rewrite
from workbench.certification.flat import Json
from workbench.certification.plan import plan_evidence
from workbench.errors import UserError
from workbench.io.kinds import ONNX, TEXT, TORCH, kind_of
from workbench.io.model_files import weight_locations
from workbench.io.onnx_file import take_defaults
from workbench.io.proto_file import open_proto
from workbench.ir import Graph
from workbench.ir.from_proto import from_proto
from workbench.memory.planning import MemoryPlan
from workbench.rewrite import Exactness, History, Step
from workbench.rewrite.core.rule import AppliedRewrite
from workbench.support.files import write_text

WRITTEN_VERSION = 2
_EXACTNESS = {  # the names in certificates
    Exactness.BIT_EXACT: "bits",
    Exactness.ROUNDING: "rounding",
    Exactness.STEP: "step",
    Exactness.NARROWED: "narrowed",
    Exactness.FAST_MATH: "signs",
}


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
    content = _content(history, Path(model), Path(output), plan)
    content["digest"] = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return write_text(path, json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n")


def _is_quantized(step: Step) -> bool:
    return any(rewrite.exactness is Exactness.QUANTIZED for rewrite in step.rewrites)


def _content(history: History, model: Path, output: Path, plan: MemoryPlan | None) -> Json:
    graph = history.initial.copy()
    rules: Json = {}
    frozen = not graph.kept.defaults
    steps: list[Json] = [_frame("loading", difference_of(_as_written(model, frozen), graph))]
    for step in history.steps[1:]:
        before, rewrites = graph.copy(), []
        for rewrite in step.rewrites:
            inverse = graph.apply(rewrite.edit)
            rewrites.append({**_record(rewrite, rules), "edit": logged_rewrite(graph, inverse)})
        evidence = step_evidence(step, before, graph)
        steps.append(
            {
                "pass": step.pass_name,
                "options": dict(step.options),
                "rewrites": rewrites,
                **({} if evidence is None else {"evidence": evidence}),
            }
        )
    if plan is not None:
        steps.append({"pass": "memory_plan", "rewrites": [], "evidence": plan_evidence(plan)})
    steps.append(_frame("exporting", difference_of(graph, _as_written(output, frozen))))
    return {
        "format": "graph-workbench certificate",
        "version": WRITTEN_VERSION,
        "model": _file(model),
        "output": _file(output),
        "mode": history.mode,
        "target": history.target,
        "dims": dict(history.initial.dims),
        "rules": rules,
        "steps": steps,
    }


def _frame(name: str, edit: Json) -> Json:
    """The step of loading, before the first pass, or of exporting, after the last."""
    return {"pass": name, "rewrites": [{"edit": edit}] if edit else []}


def _record(rewrite: AppliedRewrite, rules: Json) -> Json:
    """The rule, sentence and exactness of a rewrite; its rule is added to `rules`."""
    exactness = _EXACTNESS[rewrite.exactness]
    entries = {"sentence": rewrite.sentence, "exactness": exactness}
    if rewrite.rule is None:
        return entries
    entry = {"law": rewrite.rule.law, "exactness": exactness}
    name = base = f"{rewrite.pass_name}.{rewrite.rule.name}"
    number = 1
    while rules.setdefault(name, entry) != entry:  # `repeat` runs rules of several passes, which may have the same name
        number += 1
        name = f"{base} ({number})"
    return {"rule": name, **entries}


def _as_written(path: Path, frozen: bool) -> Graph:
    """The graph of the file before loading changes it. frozen: whether default values of inputs are constants."""
    if kind_of(path) == TEXT:
        return from_proto(parser.parse_model(path.read_text(encoding="utf-8")))
    opened = open_proto(path)
    take_defaults(opened.model, frozen)
    return from_proto(opened.model, opened.read)


def _file(path: Path) -> dict[str, Any]:
    """The name and SHA-256 of a file and of its external weight files."""
    external = {location: _sha256(path.parent / location) for location in sorted(weight_locations(path))}
    return {"file": path.name, "sha256": _sha256(path), "external": external}


def _sha256(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
