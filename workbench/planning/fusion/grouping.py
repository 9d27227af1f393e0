"""Groups of operators by fusion kind over the post-dominator tree.

Source: Chen et al., "TVM: An Automated End-to-End Optimizing Compiler for Deep Learning", OSDI 2018, section 3;
Apache TVM, src/relax/analysis/graph_partitioner.cc (RunFuse). Its third phase is about tuples, which ONNX lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, FUSABLE, INJECTIVE, OPAQUE, REDUCTION, FusionKind
from workbench.planning.fusion.post_dominators import PostDominator, post_dominators
from workbench.planning.fusion.problem import Operator, users_of
from workbench.support.reachability import reachable

MAX_OPERATORS = 256
_FUSED = (ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION)
_KIND_TEXTS = {FUSABLE: "out-elementwise-fusable"}


def kind_text(kind: FusionKind) -> str:
    """The kind as shown to the user."""
    return _KIND_TEXTS.get(kind, kind.name.lower())


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

    group:    for each operator, the index that names its group: that of its last operator.
    members:  for each group, its operators in topological order.
    kind:     for each group, the kind of its last operator, or of the product, reduction or normalization in it.
    refusals: operator -> why it does not join its post-dominator.
    """

    operators: Sequence[Operator]
    group: list[int] = field(init=False)
    members: dict[int, tuple[int, ...]] = field(init=False)
    kind: dict[int, FusionKind] = field(init=False)
    refusals: dict[int, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        indices = range(len(self.operators))
        self.group = list(indices)
        self.members = {i: (i,) for i in indices}
        self.kind = {i: self.operators[i].kind for i in indices}

    def merge(self, region: Sequence[int], sink: int) -> tuple[int, ...]:
        """Merge the groups of the region into the group of the sink; returns its members."""
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

    past_products: whether an operator in the group of a product joins its post-dominator by its own kind. TVM uses the
                   group's kind, so that a group with a product ends before the first edge that is not elementwise.
    Afterwards `groups.refusals` says of every other operator why it does not join.
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


def _sentence(
    operators: Sequence[Operator], operator: Operator, post_dominator: PostDominator, region: Sequence[int]
) -> str:
    assert post_dominator.parent is not None
    between = len(region) - 1
    with_others = f", with {between} operator{'s' if between > 1 else ''} between" if between else ""
    sink = operators[post_dominator.parent]
    return (
        f"{operator.label} ({kind_text(operator.kind)}) joins its post-dominator {sink.label}"
        f" ({kind_text(sink.kind)}){with_others}; the edges are {kind_text(post_dominator.relation)}"
    )


def _region(
    groups: Groups, i: int, kind: FusionKind, post_dominator: PostDominator, phase: int, max_operators: int
) -> tuple[int, ...] | None:
    """The operator and all between it and its post-dominator; None if the other phase decides about it.

    kind: the kind that decides what it may join. Raises Refused.
    """
    operators, operator = groups.operators, groups.operators[i]
    if kind == OPAQUE:
        raise Refused(f"{operator.label} is opaque")
    if post_dominator.parent is None:
        raise Refused(_without_post_dominator(operator))
    sink = operators[post_dominator.parent]
    joins = f"{operator.label} ({kind_text(operator.kind)}) does not join its post-dominator {sink.label}"
    if kind != operator.kind:
        joins += f", since its group is {kind_text(kind)}"
    if kind == REDUCTION:
        raise Refused(f"{joins}: a reduction ends its group")
    if phase != {FUSABLE: 0, INJECTIVE: 1}.get(kind, phase):
        return None
    allowed = {FUSABLE: (ELEMENTWISE,), INJECTIVE: (*_FUSED, FUSABLE)}.get(kind, _FUSED)
    if post_dominator.relation not in allowed:
        raise Refused(f"{joins}: an edge on the way is {kind_text(post_dominator.relation)}")
    region = _between(operators, i, post_dominator.parent, max_operators)
    for other in (*region[1:], post_dominator.parent):
        group_kind = groups.kind[groups.group[other]]
        if group_kind not in _joinable_kinds(kind, other == post_dominator.parent):
            raise Refused(f"{joins}: the group of {operators[other].label} is {kind_text(group_kind)}")
    together = {groups.group[other] for other in (*region, post_dominator.parent)}
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


def _joinable_kinds(kind: FusionKind, is_sink: bool) -> tuple[FusionKind, ...]:
    """The kinds of groups that an operator of this kind may join, at its post-dominator and on the way to it."""
    if kind == FUSABLE:
        return ELEMENTWISE, BROADCAST
    if kind == INJECTIVE or not is_sink:
        return ELEMENTWISE, BROADCAST, INJECTIVE
    return ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, FUSABLE


def _between(operators: Sequence[Operator], source: int, sink: int, limit: int) -> tuple[int, ...]:
    """The source and every operator on a path from it to the sink, without the sink; only some of them if there are
    more than `limit`."""
    found = reachable([source], lambda operator: (user for user in users_of(operators, operator) if user != sink))
    return tuple(islice(found, limit + 1))
