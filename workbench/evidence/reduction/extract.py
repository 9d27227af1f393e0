"""The region between values that a user names."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from workbench.errors import quoted
from workbench.evidence.reduction.regions import Region, RegionError, Whole
from workbench.formats.io.checks import every_graph

_MAX_NAMED = 8  # values named in a sentence
_MAX_SUGGESTED = 3  # similar names, for a value that does not exist


class OtherSourcesError(RegionError):
    """The region needs other sources than those named: `sources`."""

    def __init__(self, message: str, sources: tuple[str, ...]) -> None:
        super().__init__(message)
        self.sources = sources


def region_between(whole: Whole, sources: Sequence[str] | None, targets: Sequence[str]) -> Region:
    """The nodes that compute `targets` from `sources`, or from the graph's inputs if `sources` is None.

    Raises RegionError for values that do not exist or do not bound a region, naming those that are missing.
    """
    for value in (*(sources or ()), *targets):
        _require_value(whole, value)
    for value in targets:
        if value not in whole.producers:
            raise RegionError(f"no node computes '{value}', so that no region ends there; name the result of a node")
        if sources is not None and value in sources:
            raise RegionError(f"value '{value}' is both a beginning and an end; name it once")
    for value in (*(sources or ()), *targets):
        if value in whole.types and not whole.types[value].HasField("tensor_type"):
            raise RegionError(
                f"value '{value}' is not a tensor, so that no region begins or ends there; name a tensor instead"
            )
    start = whole.inputs if sources is None else sources
    region = whole.live(Region(tuple(range(len(whole.nodes))), tuple(targets), declared=True), stop=start)
    if sources is not None:
        _require_reached(whole, region, sources)
    return region


def _require_value(whole: Whole, value: str) -> None:
    """Raise RegionError unless a region can begin at the value."""
    known = [*whole.inputs, *whole.producers]
    if value in known:
        return
    if value in whole.initializers:
        raise RegionError(f"value '{value}' is a constant of the model, which the part contains anyway; name another")
    inside = {name for graph in list(every_graph(whole.file.model))[1:] for node in graph.node for name in node.output}
    if value in inside:
        raise RegionError(f"value '{value}' is in a body; a region begins and ends at values of the main graph")
    similar = difflib.get_close_matches(value, known, _MAX_SUGGESTED)
    hint = f"; similar are {quoted(similar, _MAX_NAMED)}" if similar else "; `inspect` and `report` show the names"
    raise RegionError(f"the model has no value '{value}'{hint}")


def _require_reached(whole: Whole, region: Region, sources: Sequence[str]) -> None:
    """Raise RegionError unless the region reads all `sources`, and nothing else that depends on the graph's inputs."""
    read = set(whole.read_by(region))
    unread = [value for value in sources if value not in read]
    targets = " and ".join(f"'{value}'" for value in region.outputs)
    missing = _missing(whole, region, sources)
    if len(unread) == len(sources):
        hint = f"; it is computed from {quoted(missing, _MAX_NAMED)}" if missing else ""
        raise RegionError(f"{targets} does not depend on {quoted(sources, _MAX_NAMED)}{hint}")
    if missing:
        needed = [*(value for value in sources if value in read), *missing]
        raise OtherSourcesError(
            f"{targets} cannot be computed from {quoted(sources, _MAX_NAMED)} alone: "
            f"it needs {quoted(missing, _MAX_NAMED)} too; begin at {','.join(needed)}",
            tuple(needed),
        )
    if unread:
        raise OtherSourcesError(
            f"{targets} can be computed without {quoted(unread, _MAX_NAMED)}; leave that out",
            tuple(value for value in sources if value in read),
        )


def _missing(whole: Whole, region: Region, sources: Collection[str]) -> list[str]:
    """Values that are needed besides `sources` to compute the region.

    They depend on the graph's inputs, and nodes after the sources read them. Each path around the sources has one,
    as near to the sources as possible.
    """
    dependent = set(sources)
    nodes = []
    for index in region.nodes:
        if not dependent.isdisjoint(whole.operands[index]):
            dependent.update(whole.results_of([index]))
            nodes.append(index)
    if dependent.isdisjoint(region.outputs):
        return list(whole.boundary(region))
    operands = dict.fromkeys(value for index in nodes for value in whole.operands[index] if value not in dependent)
    independent = [value for value in region.outputs if value not in dependent]
    missing = [value for value in (*operands, *independent) if value in whole.from_inputs]
    return [value for value in missing if value not in region.outputs] or [
        value for value in whole.boundary(region) if value not in sources
    ]
