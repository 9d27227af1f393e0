"""The region between values that a user names."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from workbench.errors import quoted
from workbench.io.checks import every_graph
from workbench.reduction.regions import Region, RegionError, Whole

_MOST = 8  # values named in a sentence
_NEAR = 3  # most names suggested for one that is not there


class BeginsElsewhereError(RegionError):
    """The ends cannot be computed from the beginnings, but from `sources`."""

    def __init__(self, words: str, sources: tuple[str, ...]) -> None:
        super().__init__(words)
        self.sources = sources


def region_between(whole: Whole, sources: Sequence[str] | None, targets: Sequence[str]) -> Region:
    """The nodes that compute `targets` from `sources`, with constants that they read; None: from the graph's inputs.

    Raises RegionError for values that are not there or bound no region, naming those that are missing.
    """
    for value in (*(sources or ()), *targets):
        _require_value(whole, value)
    for value in targets:
        if value not in whole.made_by:
            raise RegionError(f"no node computes '{value}', so that no region ends there; name the result of a node")
        if sources is not None and value in sources:
            raise RegionError(f"value '{value}' is both a beginning and an end; name it once")
    for value in (*(sources or ()), *targets):
        if value in whole.types and not whole.types[value].HasField("tensor_type"):
            raise RegionError(
                f"value '{value}' is no tensor, so that it bounds no region; name a tensor before or after"
            )
    start = whole.inputs if sources is None else sources
    region = whole.live(Region(tuple(range(len(whole.nodes))), tuple(targets), declared=True), stop=start)
    if sources is not None:
        _require_reached(whole, region, sources)
    return region


def _require_value(whole: Whole, value: str) -> None:
    known = [*whole.inputs, *whole.made_by]
    if value in known:
        return
    if value in whole.initializers:
        raise RegionError(f"value '{value}' is a constant of the model, which comes along by itself; name another")
    inside = {name for graph in list(every_graph(whole.file.model))[1:] for node in graph.node for name in node.output}
    if value in inside:
        raise RegionError(f"value '{value}' is in a body; only values of the main graph bound a region")
    near = difflib.get_close_matches(value, known, _NEAR)
    hint = f"; near it are {quoted(near, _MOST)}" if near else "; `inspect` and `report` show the names"
    raise RegionError(f"the model has no value '{value}'{hint}")


def _require_reached(whole: Whole, region: Region, sources: Sequence[str]) -> None:
    """Every beginning is read, and nothing else that depends on the graph's inputs."""
    read = set(whole.read(region))
    unread = [value for value in sources if value not in read]
    targets = " and ".join(f"'{value}'" for value in region.outputs)
    missing = _missing(whole, region, sources)
    if len(unread) == len(sources):
        more = f"; it is computed from {quoted(missing, _MOST)}" if missing else ""
        raise RegionError(f"{targets} does not depend on {quoted(sources, _MOST)}{more}")
    if missing:
        better = [*(value for value in sources if value in read), *missing]
        raise BeginsElsewhereError(
            f"{targets} cannot be computed from {quoted(sources, _MOST)} alone: it needs {quoted(missing, _MOST)} too; "
            f"begin at {','.join(better)}",
            tuple(better),
        )
    if unread:
        raise BeginsElsewhereError(
            f"{targets} can be computed without {quoted(unread, _MOST)}; leave that out",
            tuple(value for value in sources if value in read),
        )


def _missing(whole: Whole, region: Region, sources: Collection[str]) -> list[str]:
    """What nodes after the sources read that depends on the graph's inputs in another way.

    These values lie as near to the sources as can be: at most one more is cut on each way around them.
    """
    after = set(sources)
    nodes = []
    for place in region.nodes:
        if not after.isdisjoint(whole.operands[place]):
            after.update(whole.made([place]))
            nodes.append(place)
    if after.isdisjoint(region.outputs):
        return list(whole.boundary(region))
    around = dict.fromkeys(value for place in nodes for value in whole.operands[place] if value not in after)
    beside = [value for value in region.outputs if value not in after]
    missing = [value for value in (*around, *beside) if value in whole.from_inputs]
    return [value for value in missing if value not in region.outputs] or [
        value for value in whole.boundary(region) if value not in sources
    ]
