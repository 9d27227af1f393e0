"""What a rule is, what it returns, and how it says no."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.ir import Edit, Graph, Node
from workbench.layout.problem.probe import GivenTimes
from workbench.layout.profile import load_profile
from workbench.rewrite.counterexamples import Counterexample, WrongLaw
from workbench.rewrite.exactness import DEFAULT_MODE, Exactness
from workbench.rewrite.pass_context import PassContext


class NoMatch(Exception):
    """The rule looked here and does not act; the message is a sentence that says why."""


@dataclass(frozen=True)
class Rewrite:
    """A rewrite that is proposed.

    sentence: what it does and what that gains, with numbers, for the user.
    nodes:    names of the nodes it matched, for the picture.
    case:     which case of the strategy, where the strategy has cases.
    """

    edit: Edit
    sentence: str
    nodes: tuple[str, ...]
    case: str = ""


def rewrite_each(rewrites: Iterable[tuple[Edit, str, tuple[str, ...]]], case: str) -> Iterator[Rewrite]:
    """What the helpers of `layout` propose as (edit, sentence, nodes), each under this case."""
    for edit, sentence, nodes in rewrites:
        yield Rewrite(edit, sentence, nodes, case)


@dataclass(frozen=True)
class Example:
    """A small graph before and after: documentation, card in the app, output of `explain`, and test.

    sentences: what the user reads, one for each rewrite, in order.
    times_us:  where time is weighed, what an operator takes, in microseconds.
    mode:      the first mode in which it happens.
    behind:    names of passes behind which it happens.
    """

    before: str
    after: str
    sentences: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    target: str = "npu"
    title: str = ""
    times_us: Mapping[str, float] = field(default_factory=dict)
    mode: str = DEFAULT_MODE
    behind: tuple[str, ...] = ()

    @property
    def context(self) -> PassContext:
        """What the pass is told, with a timer that tells `times_us`."""
        return PassContext(load_profile(self.target), self.mode, GivenTimes(self.times_us))


@dataclass(frozen=True)
class Refusal:
    """A small graph that is left alone, and the sentence that says why."""

    graph: str
    sentence: str
    options: Mapping[str, Any] = field(default_factory=dict)


FindRewrite = Callable[[Graph, Node, Any], Rewrite]


@dataclass(frozen=True)
class Rule:
    """One rewrite rule.

    operators:      where `match` is tried.
    match:          (graph, node, the pass with its options) -> Rewrite; raises NoMatch.
    law:            the equation that it rests on, "for integers: (x + a) + b == x + (a + b)", which a test
                    proves (tests/laws.py says what can be written); "" where it is about shapes or names.
    counterexample: of a rule for the mode `fast` alone, why.
    wrong_laws:     equations that are easily taken for the law.
    """

    name: str
    operators: tuple[str, ...]
    match: FindRewrite
    example: Example
    refusals: tuple[Refusal, ...] = ()
    exactness: Exactness = field(kw_only=True)
    law: str = field(default="", kw_only=True)
    counterexample: Counterexample | None = field(default=None, kw_only=True)
    wrong_laws: tuple[WrongLaw, ...] = field(default=(), kw_only=True)

    @property
    def results(self) -> str:
        """How exact its results are, with what shows that they are no more: the end of "its results are"."""
        return f"{self.exactness.value}{f': {self.counterexample}' if self.counterexample else ''}"


@dataclass(frozen=True)
class AppliedRewrite:
    """A rewrite that was carried out; `inverse` undoes it. `seconds` is the time to find and apply it."""

    rule: str
    sentence: str
    case: str
    nodes: tuple[str, ...]
    edit: Edit
    inverse: Edit
    seconds: float
