"""A pass: a frozen dataclass whose fields are its options.

Its docstring lists its cases, its source, and when it must not act. The form
in the app, the options of the command line and the documentation come from
the fields. A pass holds rules, or overrides `rewrites`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import sys
import types
import typing
from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.rewrite.core.dead_code import dead_node_removals
from workbench.rewrite.core.equal_constants import shared_constants
from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.core.exclusion import NOTHING_EXCLUDED, ExcludedRewrites
from workbench.rewrite.core.greedy_driver import apply_rules
from workbench.rewrite.core.limits import Parents
from workbench.rewrite.core.pass_context import PassContext
from workbench.rewrite.core.permission import why_not_allowed
from workbench.rewrite.core.rule import Example, Refusal, Rewrite, Rule


class OptionError(UserError):
    """An unknown option of a pass, or an invalid value."""


def option(default: Any, help: str, **metadata: Any) -> Any:
    """A field of a pass that is an option; `help` is one sentence for form, command line and documents.

    called: the name of the option, if it differs from the field's. unit: of a number whose name does not say it.
    """
    return dataclasses.field(default=default, metadata={"help": help, **metadata})


@dataclass(frozen=True)
class Pass:
    """Base of all passes. Its options are the fields that `option` makes.

    title:         one line.
    exactness:     how exact a pass without rules is; otherwise each rule has its own.
    demonstration: wrong on purpose, to show a failing verification; it is in no preset and no comparison.
    cleans_up:     nodes that nothing reads are removed first, since they would distort costs and the users of a value.
                   They are removed again at the end, and constants that the pass added give way to equal ones, so
                   that a second run has nothing to do.
    packages:      what must also be installed, as in `pip install`. If it is missing, the step says so, and does
                   nothing or ends the run.
    """

    title: ClassVar[str] = ""
    exactness: ClassVar[Exactness] = Exactness.ROUNDING
    demonstration: ClassVar[bool] = False
    cleans_up: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()
    rules: ClassVar[tuple[Rule, ...]] = ()
    extra_examples: ClassVar[tuple[Example, ...]] = ()

    @property
    def name(self) -> str:
        """The name of the file that holds the pass."""
        return type(self).__module__.rpartition(".")[2]

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (*(rule.example for rule in cls.rules), *cls.extra_examples)

    @classmethod
    def refusals(cls) -> tuple[Refusal, ...]:
        return tuple(refusal for rule in cls.rules for refusal in rule.refusals)

    @classmethod
    def option_fields(cls) -> dict[str, dataclasses.Field[Any]]:
        """The fields that are options, by the name of the option."""
        return {f.metadata.get("called", f.name): f for f in dataclasses.fields(cls) if "help" in f.metadata}

    @property
    def grows_freely(self) -> bool:
        """Whether the user asked by an option that it acts whatever it costs, so that the file may grow by any size."""
        return False

    def options(self) -> dict[str, Any]:
        return {name: getattr(self, field.name) for name, field in self.option_fields().items()}

    def prepare(self, graph: Graph) -> bool:
        """Compute what the pass needs on the graph before it runs. Returns whether the graph's metrics changed."""
        return False

    def refused_nodes(
        self, graph: Graph, context: PassContext, names: Collection[str] | None = None
    ) -> Iterator[tuple[str, str]]:
        """For a pass without rules: each node that it left unchanged, with the sentence that says why.

        graph: as the pass left it. names: only nodes with these names, if given.
        """
        return iter(())

    def new_dims(self, graph: Graph) -> Mapping[str, int]:
        """Numbers for the symbolic dims that the pass introduces, with which the graph runs: the sizes before."""
        return {}

    @classmethod
    def missing(cls) -> str:
        """Why the pass cannot run on this machine; "" if it can."""
        absent = [package for package in cls.packages if importlib.util.find_spec(package) is None]
        return f"{' and '.join(absent)} is not installed; pip install {' '.join(absent)}" if absent else ""

    @classmethod
    def summary(cls) -> str:
        """The first paragraph of its module docstring, and which packages are missing on this machine."""
        first = (sys.modules[cls.__module__].__doc__ or cls.title).strip().partition("\n\n")[0]
        return f"{first} Not available: {cls.missing()}." if cls.missing() else first

    @classmethod
    def is_bit_equal(cls) -> bool:
        """Whether all its rewrites keep results bit-equal."""
        kinds = {rule.exactness for rule in cls.rules} or {cls.exactness}
        return kinds == {Exactness.BIT_EXACT}

    def run(
        self, graph: Graph, context: PassContext, exclude: ExcludedRewrites = NOTHING_EXCLUDED
    ) -> Iterator[Rewrite]:
        """Yield the rewrites that the context's mode allows; each is applied to `graph` before the next is requested.

        exclude: the rewrites that rules must not propose; the user left them out, mostly because they change results.
        """
        if not self.rules:
            if not self.exactness.runs_in(context.mode):
                return iter(())
            return self.cleaned(graph, context) if self.cleans_up else self.rewrites(graph, context)

        def is_allowed(graph: Graph, proposed: Rewrite, parents: Parents) -> bool:
            if proposed in exclude:
                return False
            return not why_not_allowed(graph, proposed, context, self.grows_freely, parents)

        rules = [rule for rule in self.rules_of_run() if rule.exactness.runs_in(context.mode)]
        return apply_rules(rules, graph, self, is_allowed)

    def cleaned(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, object]:
        """The rewrites of a pass that `cleans_up`, and returns its facts."""
        yield from dead_node_removals(graph)
        given = set(graph.constants)
        facts = yield from cast(Generator[Rewrite, None, object], self.rewrites(graph, context))
        yield from dead_node_removals(graph)
        yield from shared_constants(graph, graph.constants.keys() - given)
        return facts

    def rules_of_run(self) -> tuple[Rule, ...]:
        """The rules for one run; a pass whose rules keep state creates them for each run."""
        return self.rules

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        """Yield the rewrites of a pass without rules, one at a time.

        The generator may return facts about the whole run (`PassFacts`), which the step keeps.
        """
        raise NotImplementedError(f"pass {self.name} defines neither rules nor `rewrites`")


_P = TypeVar("_P", bound=Pass)


def with_options(cls: type[_P], values: Mapping[str, Any]) -> _P:
    """The pass with these options; text is read as the field's type.

    Raises OptionError with one sentence for an unknown option or a bad value.
    """
    if not values:
        return cls()
    fields = cls.option_fields()
    hints = typing.get_type_hints(cls)
    name = cls().name
    chosen = {}
    for key, value in values.items():
        if key not in fields:
            known = ", ".join(fields) or "none"
            raise OptionError(f"pass {name} has no option '{key}'; its options are: {known}")
        read = chosen[fields[key].name] = _read(value, hints[fields[key].name], f"option {name}.{key}")
        choices = fields[key].metadata.get("choices")
        if choices and read not in choices:
            raise OptionError(f"option {name}.{key} must be one of {', '.join(map(str, choices))}, not '{value}'")
        if isinstance(read, float) and not math.isfinite(read):
            raise OptionError(f"option {name}.{key} must be a finite number, not {value}")
        minimum = fields[key].metadata.get("least")
        if minimum is not None and read < minimum:
            raise OptionError(f"option {name}.{key} must be at least {minimum:,}, not {value}")
    return cls(**chosen)


def _read(value: Any, hint: Any, what: str) -> Any:
    if isinstance(hint, types.UnionType):
        hint = next(t for t in typing.get_args(hint) if t is not type(None))
    if not isinstance(value, str) or hint is str:
        return value
    if hint is bool:
        if value.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
            return value.lower() in ("true", "yes", "on", "1")
        raise OptionError(f"{what} is on or off, not '{value}'")
    try:
        return hint(value.replace(",", "").replace("_", ""))
    except ValueError:
        raise OptionError(f"{what} must be a number, not '{value}'") from None
