"""Groups of operators by fusion kind over the post-dominator tree.

Source: Chen et al., "TVM: An Automated End-to-End Optimizing Compiler for Deep Learning", OSDI 2018, section 3;
Apache TVM, src/relax/analysis/graph_partitioner.cc (RunFuse). Its third phase is about tuples, which ONNX lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from workbench.fusion.post_dominators import PostDominator, post_dominators
from workbench.fusion.problem import Operator, users_of
from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, FUSABLE, INJECTIVE, OPAQUE, REDUCTION, FusionKind

MAX_OPERATORS = 256
_FUSED = (ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION)
_WORDS = {FUSABLE: "out-elementwise-fusable"}


def word(kind: FusionKind) -> str:
    """The kind as the user reads it."""
    return _WORDS.get(kind, kind.name.lower())


@dataclass(frozen=True)
class Merge:
    """An operator joins the group of its post-dominator, with all operators between.

    members:  indices of the group's operators afterwards, in topological order.
    """

    operator: int
    sink: int
    members: tuple[int, ...]
    sentence: str


@dataclass
class Groups:
    """The groups so far.

    group:    of each operator, the index that names its group: that of its last operator.
    members:  of each group, its operators in topological order.
    kind:     of each group: that of its last operator, or of the product, reduction or normalization in it.
    refusals: operator -> why it does not join its post-dominator.
    """

    operators: Sequence[Operator]
    group: list[int] = field(init=False)
    members: dict[int, tuple[int, ...]] = field(init=False)
    kind: dict[int, FusionKind] = field(init=False)
    refusals: dict[int, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        everyone = range(len(self.operators))
        self.group = list(everyone)
        self.members = {i: (i,) for i in everyone}
        self.kind = {i: self.operators[i].kind for i in everyone}

    def merge(self, region: Sequence[int], sink: int) -> tuple[int, ...]:
        """Merge the groups of the region into the sink's; returns the members."""
        target = self.group[sink]
        for other in {self.group[i] for i in region} - {target}:
            for i in self.members[other]:
                self.group[i] = target
            self.members[target] = tuple(sorted((*self.members[target], *self.members.pop(other))))
            if (kind := self.kind.pop(other)) == FUSABLE:
                self.kind[target] = kind
        return self.members[target]


class Refused(Exception):
    """The operator does not join its post-dominator; the message is a sentence that says why."""


def merges(groups: Groups, max_operators: int = MAX_OPERATORS, *, past_products: bool = False) -> Iterator[Merge]:
    """Merge `groups` as far as the rules allow, with at most `max_operators` in a group; yields each merge.

    past_products: whether an operator in the group of a product joins further ones by its own kind. TVM goes by the
                   group's kind, so that a group with a product ends before the first edge that is not elementwise.
    Afterwards `groups.refusals` says of every other operator why it stays.
    """
    tree = post_dominators(groups.operators)
    for phase in (0, 1):
        for i, operator in enumerate(groups.operators):
            sink = tree[i].parent
            if sink is not None and groups.group[i] == groups.group[sink]:
                continue
            try:
                kind = operator.kind if past_products else groups.kind[groups.group[i]]
                region = _region(groups, i, kind, tree[i], phase, max_operators)
            except Refused as refusal:
                groups.refusals[i] = str(refusal)
                continue
            if region is None or sink is None:
                continue
            groups.refusals.pop(i, None)
            yield Merge(i, sink, groups.merge(region, sink), _sentence(groups.operators, operator, tree[i], region))
    for i in range(len(groups.operators)):
        if len(groups.members[groups.group[i]]) > 1 and groups.group[i] != i:
            groups.refusals.pop(i, None)


def _sentence(operators: Sequence[Operator], operator: Operator, place: PostDominator, region: Sequence[int]) -> str:
    assert place.parent is not None
    between = len(region) - 1
    more = f", with {between} operator{'s' if between > 1 else ''} between" if between else ""
    return (
        f"{operator.label} ({word(operator.kind)}) joins its post-dominator {operators[place.parent].label}"
        f" ({word(operators[place.parent].kind)}){more}; the edges are {word(place.relation)}"
    )


def _region(
    groups: Groups, i: int, kind: FusionKind, place: PostDominator, phase: int, max_operators: int
) -> tuple[int, ...] | None:
    """The operator and all between it and its post-dominator; None if it is for the other phase to decide.

    kind: by which it joins. Raises Refused.
    """
    operators, operator = groups.operators, groups.operators[i]
    if kind == OPAQUE:
        raise Refused(f"{operator.label} is opaque")
    if place.parent is None:
        raise Refused(_without_post_dominator(operator))
    sink = operators[place.parent]
    joins = f"{operator.label} ({word(operator.kind)}) does not join its post-dominator {sink.label}"
    if kind != operator.kind:
        joins += f", since its group is {word(kind)}"
    if kind == REDUCTION:
        raise Refused(f"{joins}: a reduction ends its group")
    if phase != {FUSABLE: 0, INJECTIVE: 1}.get(kind, phase):
        return None
    allowed = {FUSABLE: (ELEMENTWISE,), INJECTIVE: (*_FUSED, FUSABLE)}.get(kind, _FUSED)
    if place.relation not in allowed:
        raise Refused(f"{joins}: an edge on the way is {word(place.relation)}")
    region = _between(operators, i, place.parent, max_operators)
    for other in (*region[1:], place.parent):
        of_group = groups.kind[groups.group[other]]
        if of_group not in _may_be_passed(kind, other == place.parent):
            raise Refused(f"{joins}: the group of {operators[other].label} is {word(of_group)}")
    together = {groups.group[other] for other in (*region, place.parent)}
    if sum(groups.kind[group] == FUSABLE for group in together) > 1:
        raise Refused(f"{joins}: the group would have two out-elementwise-fusable operators")
    count = sum(len(groups.members[group]) for group in together)
    if count > max_operators:
        raise Refused(f"{joins}: the group would have {count:,} operators, and max_operators is {max_operators:,}")
    return region


def _without_post_dominator(operator: Operator) -> str:
    if operator.is_output:
        return f"a result of {operator.label} is an output of the graph"
    if not operator.edges:
        return f"{operator.label} is unused"
    return f"the users of {operator.label} do not meet in one operator"


def _may_be_passed(kind: FusionKind, is_sink: bool) -> tuple[FusionKind, ...]:
    """The kinds of groups that an operator of this kind may join, at its post-dominator and on the way to it."""
    if kind == FUSABLE:
        return ELEMENTWISE, BROADCAST
    if kind == INJECTIVE or not is_sink:
        return ELEMENTWISE, BROADCAST, INJECTIVE
    return ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, FUSABLE


def _between(operators: Sequence[Operator], source: int, sink: int, most: int) -> tuple[int, ...]:
    """The source and every operator on a path from it to the sink, without the sink; some of them beyond `most`."""
    result, waiting = {source: None}, [source]
    while waiting and len(result) <= most:
        for user in users_of(operators, waiting.pop()):
            if user != sink and user not in result:
                result[user] = None
                waiting.append(user)
    return tuple(result)
