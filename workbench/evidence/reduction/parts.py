"""Cut a part out of a model's file into a separate file with recorded inputs, and put a changed part back."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import UserError
from workbench.evidence.reduction.candidates import Candidate
from workbench.evidence.reduction.extract import region_between
from workbench.evidence.reduction.recorded import recorded_whole
from workbench.evidence.reduction.regions import Region, Whole
from workbench.evidence.reduction.splice import with_part
from workbench.formats.io.proto_file import open_proto, write_proto
from workbench.run.worker.client import Worker
from workbench.support.files import not_written


@dataclass(frozen=True)
class CutPart:
    """A part that was written: `nodes` of the whole's `whole_nodes`.

    has_inputs: whether its inputs were recorded; if not, `failure` says why.
    """

    nodes: int
    whole_nodes: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    has_inputs: bool
    failure: str | None


@dataclass(frozen=True)
class PutPart:
    """A model in which a part was put back: its `nodes`, and its `nodes_before`.

    staying: nodes of the replaced region that remain, since nodes outside it read their results.
    """

    nodes: int
    nodes_before: int
    staying: int

    @property
    def summary(self) -> str:
        counts = f"{self.nodes:,} nodes; {self.nodes_before:,} before"
        if not self.staying:
            return counts
        staying = "1 node of the region stays" if self.staying == 1 else f"{self.staying:,} nodes of the region stay"
        return f"{counts}; {staying}, since nodes outside read their results"


def cut_out(
    path: str,
    sources: Sequence[str] | None,
    targets: Sequence[str],
    output: str,
    inputs_output: str,
    worker: Worker,
    *,
    dims: Mapping[str, int] | None = None,
    inputs: str | None = None,
    seed: int = 0,
) -> CutPart:
    """Write the nodes that compute `targets` from `sources`, and an .npz of the part's inputs in one run.

    sources, targets: names of values, or lists of them with commas; None: from the model's inputs.
    dims, inputs, seed: sizes, an .npz and the seed for the recorded run, as for `verify`.
    Raises RegionError for values that do not bound a region, LoadError, UserError if a file cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="graph-workbench-") as folder:
        recorded = recorded_whole(path, dict(dims or {}), inputs, seed, worker, Path(folder))
        whole = recorded.whole
        region = _region(whole, sources, targets)
        has_inputs = bool(whole.recorded)
        try:
            part = Candidate(whole, region, whole.build(region))
            part.save(Path(output), Path(inputs_output) if has_inputs else None)
        except OSError as error:
            raise not_written(output, error) from None
        boundary = tuple(whole.boundary(region))
    return CutPart(len(region.nodes), len(whole.nodes), boundary, tuple(region.outputs), has_inputs, recorded.failure)


def put_part(path: str, part: str, sources: Sequence[str] | None, targets: Sequence[str], output: str) -> PutPart:
    """Write the model with the part's file in place of the region.

    Raises RegionError for a part that does not fit, LoadError, UserError if the file cannot be written.
    """
    whole, changed = open_proto(path), open_proto(part)
    replaced = 0

    def find(source: Whole) -> Region:
        nonlocal replaced
        region = _region(source, sources, targets)
        replaced = len(region.nodes)
        return region

    result = with_part(whole, changed, find)
    try:
        write_proto(output, result.model, result.read_weight, result.sparse)
    except OSError as error:
        raise not_written(output, error) from None
    nodes, before = len(result.model.graph.node), len(whole.model.graph.node)
    return PutPart(nodes, before, nodes - len(changed.model.graph.node) - (before - replaced))


def _region(whole: Whole, sources: Sequence[str] | None, targets: Sequence[str]) -> Region:
    """The region between the values of comma-separated lists."""
    known = {*whole.inputs, *whole.producers}
    names = None if sources is None else _named_values(sources, known)
    return region_between(whole, names, _named_values(targets, known))


def _named_values(texts: Sequence[str], known: Collection[str]) -> list[str]:
    """The values of comma-separated lists. A name that contains a comma must be an element of `texts`."""
    results = []
    for text in texts:
        results += [text] if text in known else [part.strip() for part in text.split(",") if part.strip()]
    if not results:
        raise UserError("a region begins and ends at values; name at least one")
    return list(dict.fromkeys(results))
