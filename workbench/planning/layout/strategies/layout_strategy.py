"""A layout strategy: a pass that chooses the layout of every value, for the target of the run."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from workbench.analysis.inference.bound_shapes import infer_sizes
from workbench.ir import Graph, Node
from workbench.ops import NotPermutable
from workbench.ops.blocked import block_of
from workbench.planning.layout.conversion.convert import permuted_call
from workbench.planning.layout.conversion.sample_norms import joined_norms, split_norms
from workbench.planning.layout.infer import infer_layouts, is_cnn
from workbench.planning.layout.problem.operator_benchmark import GivenTimes
from workbench.planning.layout.profile import Profile, load_profile
from workbench.rewrite.core.pass_context import PassContext
from workbench.rewrite.core.passes import Pass
from workbench.rewrite.core.rule import Example, Rewrite, rewrite_each

_NORMS = "normalization"  # the case of rewrites of group normalizations


@dataclass(frozen=True)
class LayoutStrategy(Pass):
    """Base of the layout strategies, of which a pipeline runs one: `layout{strategy=optimal}`.

    strategy:        its name in the text of a pipeline and for `--layout`.
    times_operators: whether it runs operators of the model on this machine, which takes seconds.
    """

    strategy: ClassVar[str] = ""
    times_operators: ClassVar[bool] = False
    cleans_up: ClassVar[bool] = True

    def prepare(self, graph: Graph) -> bool:
        """Costs need the sizes of values that earlier passes created."""
        return infer_sizes(graph)

    def cleaned(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, object]:
        """The rewrites; a group normalization of one group is one operator meanwhile, through which layouts pass."""
        joined: dict[str, tuple[str, ...]] = {}
        yield from rewrite_each(joined_norms(graph, joined), _NORMS)
        facts = yield from super().cleaned(graph, context)
        yield from rewrite_each(split_norms(graph, joined), _NORMS)
        return facts

    def refused_nodes(
        self, graph: Graph, context: PassContext, names: Collection[str] | None = None
    ) -> Iterator[tuple[str, str]]:
        """Operators whose results are images in another layout than the target's, and what their contracts say."""
        target = context.get(Profile)
        if block_of(target.layout):
            return  # blocked channels are not a permutation
        layouts = infer_layouts(graph)
        nodes: Iterable[Node] = graph.nodes if names is None else filter(None, map(graph.find, names))
        for node in nodes:
            layout = layouts.get(node.outputs[0], "") if node.outputs else ""
            target_layout = target.layout_for(len(layout)) if is_cnn(layout) else None
            if (
                not target_layout
                or layout == target_layout
                or sorted(layout) != sorted(target_layout)
                or node.op == "Transpose"
            ):
                continue
            try:
                permuted_call(graph, node, tuple(map(layout.index, target_layout)), target)
            except NotPermutable as error:
                yield node.name, str(error)
            else:
                yield node.name, f"{node} could run in {target_layout}, and the strategy left it in {layout}"


def example_context(example: Example) -> PassContext:
    """The context of an example: its target and mode, and a timer that returns the times that it states."""
    return PassContext(load_profile(example.target), GivenTimes(example.times_us), mode=example.mode)
