"""A part of the open model: where it begins and ends, cutting it out, opening it, and putting it back."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.api import export
from workbench.errors import UserError
from workbench.io import load_model
from workbench.ir import Graph
from workbench.reduction.parts import CutPart, PutPart, cut_out, put_part
from workbench.run.compare import Verdict
from workbench.run.inputs import read_inputs
from workbench.ui.state.model_inputs import given_inputs, use_tensors
from workbench.ui.state.session import Opened, PartOf, current, open_model, worker
from workbench.ui.state.work import Report
from workbench.verification.verifier import Verifier
from workbench.view.groups import Group
from workbench.view.ids import GROUP_ID, INPUT_ID, OUTPUT_ID

_PART, _INPUTS, _WHOLE = "part.onnx", "part.inputs.npz", "whole.onnx"


@dataclass(frozen=True)
class Extracted:
    """A part that was cut out, in a folder of its own. sources, targets: the values that were named."""

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
    """The whole with the optimized part in its place, compared with the whole as it was."""

    folder: tempfile.TemporaryDirectory[str]
    put: PutPart
    verdict: Verdict

    @property
    def model(self) -> Path:
        return Path(self.folder.name) / _WHOLE


def bounds_of(graph: Graph, root: Group, id_: str) -> tuple[list[str], list[str]]:
    """The values that a box of the picture reads, and those that it makes; constants do not count.

    id_: of an input, an output, a node, or a group, of which what goes on inside does not count either.
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
    made = [value for node in nodes for value in node.outputs if value]
    read = [value for node in nodes for value in node.operands if value and graph.constant(value) is None]
    begins = [value for value in dict.fromkeys(read) if value not in set(made)]
    ends = [
        value for value in made if graph.is_output(value) or any(user.name not in inside for user in graph.users(value))
    ]
    return begins, ends


def extract_part(opened: Opened, sources: Sequence[str], targets: Sequence[str], report: Report) -> Extracted:
    """Cut the region out of the model's file, with the numbers of one run on the inputs that it is compared on."""
    report("running the model for the numbers of the part's inputs", None)
    folder = tempfile.TemporaryDirectory(prefix="workbench-part-")
    given, dims = given_inputs(opened, Path(folder.name))
    part = Path(folder.name) / _PART
    cut = cut_out(
        str(opened.graph.source),
        list(sources) or None,
        list(targets),
        str(part),
        str(Path(folder.name) / _INPUTS),
        worker(),
        dims=dims,
        inputs=given,
        seed=opened.seed,
    )
    if given:
        Path(given).unlink()
    return Extracted(cut, folder, tuple(sources), tuple(targets))


def open_part(opened: Opened, part: Extracted) -> None:
    """Make the part the session's model, on its recorded inputs. On an error (UserError) the open model stays."""
    whole = PartOf(opened.title, str(opened.graph.source), opened.dims_given, part.sources, part.targets, opened.folder)
    open_model(str(part.model), f"Part of {opened.title}", folder=part.folder, shown_path=part.model.name)
    result = current()
    result.part_of = whole
    if part.cut.has_inputs:
        use_tensors(result, read_inputs(part.inputs, result.graph), _INPUTS)


def put_part_back(opened: Opened, report: Report) -> PutBack:
    """The whole with the open part, as Optimize left it, in its place, verified. Raises UserError."""
    whole, history = opened.part_of, opened.history
    assert whole is not None  # the page has looked
    if history is not None and history.failed is not None:
        raise UserError(
            f"{history.failed.title} is not equal to the part as it was, so it is not put back; leave the rewrite that "
            "broke it out on Optimize"
        )
    folder = tempfile.TemporaryDirectory(prefix="workbench-whole-")
    report("writing the part", None)
    part = Path(folder.name) / _PART
    export(opened.graph if history is None else history.graph, part)
    made = Path(folder.name) / _WHOLE
    put = put_part(whole.file, str(part), list(whole.sources) or None, list(whole.targets), str(made))
    part.unlink()
    report("comparing it with the whole as it was", None)
    verifier = Verifier(load_model(whole.file, whole.dims), worker=worker(), given=tuple(whole.dims))
    return PutBack(folder, put, verifier.check(load_model(str(made), whole.dims)))
