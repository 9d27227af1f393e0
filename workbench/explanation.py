"""A description of a pass, from its docstring, options and examples."""

from __future__ import annotations

import inspect
import textwrap

from workbench.ir import from_text, graph_text
from workbench.rewrite import Example, Pass, Rule


def explain_pass(cls: type[Pass]) -> str:
    """The text that `python -m workbench explain` prints and docs/passes.md contains."""
    parts = [f"{cls().name}: {cls.title}", inspect.getdoc(cls) or "", _options(cls)]
    for rule in cls.rules:
        parts.append(_example(f"Rule: {rule.name}", rule.example))
        parts.append(_claims(rule))
        parts.extend(f"Not here: {refusal.sentence}." for refusal in rule.refusals)
    parts.extend(_example(example.title, example) for example in cls.own_examples)
    if not cls.rules:
        parts.append(f"Results are {cls.exactness.value}.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _claims(rule: Rule) -> str:
    law = f"Law: {rule.law}. " if rule.law else ""
    wrong = "".join(f" Not so: {each}" for each in rule.wrong_laws)
    return f"{law}Results are {rule.results}.{wrong}"


def _options(cls: type[Pass]) -> str:
    lines = [f"  {cls().name}.{name} = {f.default}: {f.metadata['help']}" for name, f in cls.option_fields().items()]
    return "\n".join(["Options:", *lines]) if lines else ""


def _example(title: str, example: Example) -> str:
    return "\n".join(
        [
            title or "Example",
            *([f"  times: {_times(example)}"] if example.times_us else []),
            *([f"  behind: {', '.join(example.behind)}"] if example.behind else []),
            "  before:",
            indented_graph(example.before),
            "  after:",
            indented_graph(example.after),
            *(f"  - {sentence}" for sentence in example.sentences),
        ]
    )


def _times(example: Example) -> str:
    return ", ".join(f"{operator} {time:g} us" for operator, time in example.times_us.items())


def indented_graph(text: str) -> str:
    """An example's graph as text, indented."""
    return textwrap.indent(graph_text(from_text(text)).strip(), "    ")
