"""A part of a model's file as a file of its own, with real inputs, and a changed part in its place again."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import UserError
from workbench.io.proto_file import open_proto, write_proto
from workbench.reduction.candidates import Candidate
from workbench.reduction.extract import region_between
from workbench.reduction.putting_back import with_part
from workbench.reduction.recorded import recorded_whole
from workbench.reduction.regions import Region, Whole
from workbench.run.worker.client import Worker
from workbench.support.files import not_written


@dataclass(frozen=True)
class CutPart:
    """A part that was written: `nodes` of the `of` nodes of the whole.

    has_inputs: whether numbers of its inputs were recorded; if not, `failure` says why.
    """

    nodes: int
    of: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    has_inputs: bool
    failure: str | None


@dataclass(frozen=True)
class PutPart:
    """A model with a part in its place: `nodes` now, `before`, and those of the region that `stay`, since nodes
    outside read what they make.
    """

    nodes: int
    before: int
    stay: int

    @property
    def words(self) -> str:
        if not self.stay:
            return f"{self.nodes:,} nodes; {self.before:,} before"
        stay = "1 node of the region stays" if self.stay == 1 else f"{self.stay:,} nodes of the region stay"
        return f"{self.nodes:,} nodes; {self.before:,} before; {stay}, since others read what is made there"


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
    """Write the nodes that compute `targets` from `sources`, and an .npz of its inputs as one run gives them.

    sources, targets: names of values, or lists of them with commas; None: from the model's inputs.
    dims, inputs, seed: on what the model runs, as for `verify`.
    Raises RegionError for values that bound no region, LoadError, UserError where nothing can be written.
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

    Raises RegionError for a part that does not fit, LoadError, UserError where nothing can be written.
    """
    whole, changed = open_proto(path), open_proto(part)
    replaced = 0

    def bounded(it: Whole) -> Region:
        nonlocal replaced
        region = _region(it, sources, targets)
        replaced = len(region.nodes)
        return region

    made = with_part(whole, changed, bounded)
    try:
        write_proto(output, made.model, made.read)
    except OSError as error:
        raise not_written(output, error) from None
    nodes, before = len(made.model.graph.node), len(whole.model.graph.node)
    return PutPart(nodes, before, nodes - len(changed.model.graph.node) - (before - replaced))


def _region(whole: Whole, sources: Sequence[str] | None, targets: Sequence[str]) -> Region:
    known = {*whole.inputs, *whole.made_by}
    begin = None if sources is None else _named_values(sources, known)
    return region_between(whole, begin, _named_values(targets, known))


def _named_values(texts: Sequence[str], known: Collection[str]) -> list[str]:
    """The values of comma-separated lists; a value whose name has a comma in it stands alone."""
    results = []
    for text in texts:
        results += [text] if text in known else [part.strip() for part in text.split(",") if part.strip()]
    if not results:
        raise UserError("a region begins and ends at values; name at least one")
    return list(dict.fromkeys(results))
