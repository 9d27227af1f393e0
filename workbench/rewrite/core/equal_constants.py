"""Constants of the same element type, shape and elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator

from workbench.ir import Constant, Edit, Graph, constant_shape
from workbench.ir.types import MissingConstant
from workbench.rewrite.core.content import elements_key
from workbench.rewrite.core.rule import Rewrite


def shared_constants(graph: Graph, names: Collection[str]) -> Iterator[Rewrite]:
    """Replace each named constant that equals an earlier constant, all that are equal in one rewrite.

    An output of the graph is not replaced, and a missing constant stays as it is. Each rewrite must be applied before
    the next is asked for.
    """
    known = {value: tensor for value, tensor in graph.constants.items() if not isinstance(tensor, MissingConstant)}
    type_keys = {value: _type_key(tensor) for value, tensor in known.items()}
    counts, wanted = Counter(type_keys.values()), {type_keys[name] for name in names if name in known}
    groups: dict[Hashable, list[str]] = {}
    for value, tensor in known.items():
        if counts[type_keys[value]] > 1 and type_keys[value] in wanted:
            groups.setdefault(elements_key(tensor), []).append(value)
    for first, *others in groups.values():
        removed = [value for value in others if value in names and not graph.is_output(value)]
        if removed:
            yield _shared(graph, first, removed)


def _shared(graph: Graph, first: str, removed: list[str]) -> Rewrite:
    subject = f"constant '{removed[0]}' holds"
    if len(removed) > 1:
        subject = f"constant '{removed[0]}' and {len(removed) - 1:,} other{'s' if len(removed) > 2 else ''} hold"
    saved = graph.constants[first].nbytes * len(removed)
    readers = dict.fromkeys(node.name for value in removed for node in graph.users(value))
    sentence = f"{subject} the same as '{first}'; {saved:,} bytes less"
    return Rewrite(Edit(replace=dict.fromkeys(removed, first)), sentence, tuple(readers))


def _type_key(tensor: Constant) -> tuple[Hashable, ...]:
    return tensor.dtype, constant_shape(tensor)
