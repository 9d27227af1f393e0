"""Rules, the rewrites they return, and the exception with which they refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.ir import Edit, Graph, Node
from workbench.rewrite.core.counterexamples import Counterexample, WrongLaw
from workbench.rewrite.core.exactness import DEFAULT_MODE, Exactness
from workbench.rewrite.core.identity import RewriteId


class NoMatch(Exception):
    """The rule does not apply here; the message is a sentence that says why."""


@dataclass(frozen=True)
class Rewrite:
    """A proposed rewrite.

    sentence: what it does and what is gained, with numbers, for the user.
    nodes:    names of the matched nodes, for the graph view.
    case:     the case of the layout strategy, if it has cases.
    by:       the rule that proposed it; None for a procedure.
    exactness: how exact its results are; None: as exact as the pass.
    matched_at: the node at which the rule matched, "loop/body/add" in a body; "": the first of `nodes`.
    inner_pass: the pass that proposed it, if it ran within another one.
    """

    edit: Edit
    sentence: str
    nodes: tuple[str, ...]
    case: str = ""
    by: Rule | None = field(default=None, repr=False)
    exactness: Exactness | None = None
    matched_at: str = ""
    inner_pass: str = ""

    @property
    def root(self) -> str:
        """The node that identifies it; "" if it names none."""
        return self.matched_at or (self.nodes[0] if self.nodes else "")

    @property
    def rule_name(self) -> str:
        """The rule that identifies it, after the name of the inner pass."""
        return ".".join(filter(None, (self.inner_pass, "" if self.by is None else self.by.name)))

    def proposed_by(self, rule: Rule, node: Node) -> Rewrite:
        """The rewrite as the rule's proposal at the node."""
        return replace(self, by=rule, exactness=rule.exactness, matched_at=node.name)

    def within(self, pass_name: str) -> Rewrite:
        """The rewrite as the pass of that name proposes it within another one."""
        return replace(self, inner_pass=".".join(filter(None, (pass_name, self.inner_pass))))


def rewrite_each(rewrites: Iterable[tuple[Edit, str, tuple[str, ...]]], case: str) -> Iterator[Rewrite]:
    """A rewrite of this case for each (edit, sentence, nodes)."""
    for edit, sentence, nodes in rewrites:
        yield Rewrite(edit, sentence, nodes, case)


@dataclass(frozen=True)
class Example:
    """A small graph before and after: documentation, card in the app, output of `explain`, and test.

    sentences: what the user reads, one for each rewrite, in order.
    times_us:  for strategies that weigh time, the time of each operator in microseconds.
    mode:      the strictest mode that allows the rewrites.
    dims:      numbers bound to symbolic dims.
    """

    before: str
    after: str
    sentences: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    target: str = "npu"
    title: str = ""
    times_us: Mapping[str, float] = field(default_factory=dict)
    mode: str = DEFAULT_MODE
    dims: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """A small graph that is not rewritten, and the sentence that says why."""

    graph: str
    sentence: str
    options: Mapping[str, Any] = field(default_factory=dict)


FindRewrite = Callable[[Graph, Node, Any], Rewrite]
MayMatch = Callable[[Graph, Node], bool]


@dataclass(frozen=True)
class Rule:
    """One rewrite rule.

    operators:      the operators of the nodes at which `match` is tried; "*" for all.
    match:          (graph, node, the pass with its options) -> Rewrite; raises NoMatch.
    may_match:      a quick check, False only where `match` raises NoMatch. The driver calls it first, since most
                    nodes match nothing.
    law:            the equation that it rests on, "for integers: (x + a) + b == x + (a + b)", which a test
                    proves (verification/pass_files/proofs.py says what can be written); "" if it is about shapes or
                    names.
    counterexample: why a rule of mode `fast` is not exact.
    wrong_laws:     equations that are easily mistaken for the law.
    """

    name: str
    operators: tuple[str, ...]
    match: FindRewrite
    example: Example
    refusals: tuple[Refusal, ...] = ()
    may_match: MayMatch | None = field(default=None, kw_only=True)
    exactness: Exactness = field(kw_only=True)
    law: str = field(default="", kw_only=True)
    counterexample: Counterexample | None = field(default=None, kw_only=True)
    wrong_laws: tuple[WrongLaw, ...] = field(default=(), kw_only=True)

    @property
    def results(self) -> str:
        """How exact its results are, with the counterexample: completes "its results are"."""
        return f"{self.exactness.value}{f': {self.counterexample}' if self.counterexample else ''}"


@dataclass(frozen=True)
class AppliedRewrite:
    """An applied rewrite; `inverse` undoes it. seconds: the time to find and apply it.

    rule: what proposed it; None for a procedure. exactness: of its results. id: which rewrite of its step it is.
    """

    pass_name: str
    sentence: str
    case: str
    nodes: tuple[str, ...]
    edit: Edit
    inverse: Edit
    seconds: float
    rule: Rule | None = field(default=None, repr=False)
    exactness: Exactness = Exactness.ROUNDING
    id: RewriteId = field(default=RewriteId("", "", 0), repr=False)
