"""A part of the open model: its first and last values, cutting it out, opening it, and putting it back."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import UserError
from workbench.evidence.reduction.parts import CutPart, PutPart, cut_out, put_part
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.interfaces.api import export
from workbench.interfaces.ui.state.model_inputs import saved_inputs, use_tensors
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.session import Opened, PartOf, current, open_model, worker
from workbench.interfaces.ui.state.work import Report
from workbench.ir import Graph
from workbench.presentation.view.groups import Group
from workbench.presentation.view.ids import GROUP_ID, INPUT_ID, OUTPUT_ID
from workbench.run.compare import Verdict
from workbench.run.inputs import read_inputs

EXTRACT_FROM = "extract_from"  # key in the session: the id of the box with which Extract is to begin
_PART, _INPUTS, _WHOLE = "part.onnx", "part.inputs.npz", "whole.onnx"


@dataclass(frozen=True)
class Extracted:
    """A part that was cut out. folder: of its files. sources, targets: where the user let it begin and end."""

    cut: CutPart
    folder: tempfile.TemporaryDirectory[str]
    sources: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def model(self) -> Path:
        return Path(self.folder.name) / _PART

    @property
    def inputs(self) -> Path:
        return Path(self.folder.name) / _INPUTS


@dataclass(frozen=True)
class PutBack:
    """The whole model with the optimized part. verdict: of its comparison with the whole model before."""

    folder: tempfile.TemporaryDirectory[str]
    put: PutPart
    verdict: Verdict

    @property
    def model(self) -> Path:
        return Path(self.folder.name) / _WHOLE


@dataclass
class ExtractedParts(ModelState):
    """The part that was cut out last; the whole with the open part, where the open model is one."""

    outlives_inputs = True

    cut: Extracted | None = None
    put_back: PutBack | None = None


def bounds_of(graph: Graph, root: Group, id_: str) -> tuple[list[str], list[str]]:
    """The values that a box of the picture reads, without constants, and those that it produces.

    id_: the id of an input, an output, a node, or a group; values used only inside a group do not count.
    """
    if id_.startswith(INPUT_ID):
        return [id_.removeprefix(INPUT_ID)], []
    if id_.startswith(OUTPUT_ID):
        return [], [id_.removeprefix(OUTPUT_ID)]
    names = [id_]
    if id_.startswith(GROUP_ID):
        names = [name for group in root.below() if group.id == id_ for name in group.members()]
    nodes = [node for node in map(graph.find, names) if node is not None]
    inside = {node.name for node in nodes}
    produced = [value for node in nodes for value in node.outputs if value]
    read = [value for node in nodes for value in node.operands if value and graph.constant(value) is None]
    sources = [value for value in dict.fromkeys(read) if value not in set(produced)]
    targets = [
        value
        for value in produced
        if graph.is_output(value) or any(user.name not in inside for user in graph.users(value))
    ]
    return sources, targets


def extract_part(opened: Opened, sources: Sequence[str], targets: Sequence[str], report: Report) -> Extracted:
    """Cut the part out of the model's file, and record its inputs in one run on the inputs for comparing."""
    report("running the model to record the inputs of the part", None)
    folder = tempfile.TemporaryDirectory(prefix="workbench-part-")
    inputs_file, dims = saved_inputs(opened, Path(folder.name))
    part = Path(folder.name) / _PART
    cut = cut_out(
        str(opened.graph.source),
        list(sources) or None,
        list(targets),
        str(part),
        str(Path(folder.name) / _INPUTS),
        worker(),
        dims=dims,
        inputs=inputs_file,
        seed=opened.seed,
    )
    if inputs_file:
        Path(inputs_file).unlink()
    return Extracted(cut, folder, tuple(sources), tuple(targets))


def open_part(opened: Opened, part: Extracted) -> None:
    """Open the part with its recorded inputs. On an error (UserError) the open model stays."""
    whole = PartOf(opened.title, str(opened.graph.source), opened.user_dims, part.sources, part.targets, opened.folder)
    open_model(str(part.model), f"Part of {opened.title}", folder=part.folder, shown_path=part.model.name)
    result = current()
    result.part_of = whole
    if part.cut.has_inputs:
        use_tensors(result, read_inputs(part.inputs, result.graph), _INPUTS)


def put_part_back(opened: Opened, report: Report) -> PutBack:
    """The whole model with the open part as it is on Optimize, verified. Raises UserError."""
    whole, history = opened.part_of, opened.history
    assert whole is not None  # the page has checked
    if history is not None and history.failed is not None:
        raise UserError(
            f"after {history.failed.title}, the part does not equal the original part, so it is not put back; "
            "leave out the rewrite that broke it on Optimize"
        )
    folder = tempfile.TemporaryDirectory(prefix="workbench-whole-")
    report("writing the part", None)
    part = Path(folder.name) / _PART
    export(opened.graph if history is None else history.graph, part)
    file = Path(folder.name) / _WHOLE
    put = put_part(whole.file, str(part), list(whole.sources) or None, list(whole.targets), str(file))
    part.unlink()
    report("comparing the whole model with the original", None)
    verifier = Verifier(load_model(whole.file, whole.dims), worker=worker(), given=tuple(whole.dims))
    return PutBack(folder, put, verifier.check(load_model(str(file), whole.dims)))
