"""A pass: a frozen dataclass whose fields are its options.

Its docstring lists its cases, its source, and when it must not act. The form
in the app, the options of the command line and the documentation come from
the fields. A pass holds rules, or overrides `rewrites`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.errors import UserError
from workbench.ir import Graph, Node
from workbench.layout.profile import Profile
from workbench.rewrite.history import LAYOUT_PREFIX
from workbench.rewrite.rule import Example, Found, NoMatch, Refusal, Rule

_MOST_REWRITES_A_NODE = 20  # a pass that exceeds this has two rules that undo each other


class OptionError(UserError):
    """An option that the pass does not have, or a value that does not fit it."""


class RunawayError(RuntimeError):
    """A pass goes on rewriting without end: a fault of the pass."""


def option(default: Any, help: str, **metadata: Any) -> Any:
    """A field of a pass that is an option; `help` is one sentence for form, command line and documents."""
    return dataclasses.field(default=default, metadata={"help": help, **metadata})


@dataclass(frozen=True)
class Pass:
    """Base of all passes.

    title:         one line.
    bit_equal:     results are equal to the last bit.
    demonstration: it is wrong on purpose, to be seen failing; compared with no other, and in no preset.
    """

    title: ClassVar[str] = ""
    bit_equal: ClassVar[bool] = False
    demonstration: ClassVar[bool] = False
    rules: ClassVar[tuple[Rule, ...]] = ()
    own_examples: ClassVar[tuple[Example, ...]] = ()

    @property
    def name(self) -> str:
        """The name of the file that holds the pass."""
        return type(self).__module__.rpartition(".")[2]

    @property
    def is_layout(self) -> bool:
        """Is it a layout strategy?"""
        return self.name.startswith(LAYOUT_PREFIX)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (*(rule.example for rule in cls.rules), *cls.own_examples)

    @classmethod
    def refusals(cls) -> tuple[Refusal, ...]:
        return tuple(refusal for rule in cls.rules for refusal in rule.refusals)

    def options(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def rewrites(self, graph: Graph, target: Profile) -> Iterator[Found]:
        """Yield rewrites one at a time; each is applied to `graph` before the next is asked for.

        A generator may return a mapping of facts about the whole run, which the step keeps.
        """
        return follow_rules(self.rules, graph, self)


def follow_rules(rules: tuple[Rule, ...], graph: Graph, options: Pass) -> Iterator[Found]:
    """Try the rules on every node in topological order, and again round what a rewrite changed."""
    waiting = dict.fromkeys(node.name for node in graph.nodes)
    left = _MOST_REWRITES_A_NODE * len(graph) + 100
    while waiting:
        name = next(iter(waiting))
        del waiting[name]
        node = graph.find(name)
        found = None if node is None else _first_match(rules, graph, node, options)
        if found is None:
            continue
        left -= 1
        if left < 0:
            raise RunawayError(f"pass {options.name} does not come to an end; last: {found.sentence}")
        gone = [graph.node(removed) for removed in found.edit.remove]
        yield found
        waiting.update(dict.fromkeys(_around(graph, found, gone)))


def _first_match(rules: tuple[Rule, ...], graph: Graph, node: Node, options: Pass) -> Found | None:
    for rule in rules:
        if node.op not in rule.operators and "*" not in rule.operators:
            continue
        try:
            return rule.match(graph, node, options)
        except NoMatch:
            continue
    return None


def _around(graph: Graph, found: Found, gone: list[Node]) -> Iterator[str]:
    """Nodes whose neighbourhood the rewrite changed: the new ones, and producers and readers of their values."""
    values = dict.fromkeys(found.edit.replace.values())
    for node in (*found.edit.insert, *gone):
        if node.name in graph:
            yield node.name
        values.update(dict.fromkeys((*node.uses, *node.outputs)))
    for value in values:
        producer = graph.producer(value)
        if producer is not None:
            yield producer.name
        yield from (user.name for user in graph.users(value))


def with_options(cls: type[Pass], values: Mapping[str, Any]) -> Pass:
    """The pass with these options; text is read as the field's type.

    Raises OptionError with one sentence for an unknown option or a bad value.
    """
    fields = {f.name: f for f in dataclasses.fields(cls)}
    hints = typing.get_type_hints(cls)
    name = cls().name
    chosen = {}
    for key, value in values.items():
        if key not in fields:
            known = ", ".join(fields) or "none"
            raise OptionError(f"pass {name} has no option '{key}'; its options are: {known}")
        chosen[key] = _read(value, hints[key], f"option {name}.{key}")
        choices = fields[key].metadata.get("choices")
        if choices and chosen[key] not in choices:
            raise OptionError(f"option {name}.{key} must be one of {', '.join(map(str, choices))}, not '{value}'")
        least = fields[key].metadata.get("least")
        if least is not None and chosen[key] < least:
            raise OptionError(f"option {name}.{key} must be at least {least:,}, not {value}")
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
