"""A description of a pass, from its docstring, options and examples."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from workbench.ir import from_text, graph_text
from workbench.rewrite import Example, Pass, Rule


@dataclass(frozen=True)
class RuleSource:
    """The lines of a rule: `file` by its folder and name, the number of the first line, and the text."""

    file: str
    line: int
    text: str


def rule_source(cls: type[Pass], rule: Rule) -> list[RuleSource]:
    """The source of a rule: the function that matches, if the pass's file has it, and the call that makes the rule.

    Where no call names it (rules made in a loop), the lines that collect the pass's rules.
    """
    module = sys.modules[cls.__module__]
    place = Path(inspect.getfile(cls))
    file, text = f"{place.parent.name}/{place.name}", place.read_text(encoding="utf-8")
    tree = ast.parse(text)
    results: list[ast.AST] = []
    if getattr(rule.match, "__module__", "") == module.__name__:
        results += [
            n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == getattr(rule.match, "__name__", "")
        ]
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _is_named(n, rule.name)]
    assigned = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "rules"]
    results += calls[:1] or assigned[:1]
    return [
        RuleSource(file, node.lineno, _lines_of(text, node))
        for node in results
        if isinstance(node, ast.stmt | ast.expr)
    ]


def _is_named(call: ast.Call, name: str) -> bool:
    """Whether the call makes something of that name: its first argument."""
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == name


def _lines_of(text: str, node: ast.stmt | ast.expr) -> str:
    return textwrap.dedent("\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno]))


def explain_pass(cls: type[Pass]) -> str:
    """The text that `python -m workbench explain` prints, and the page Passes of the site has."""
    parts = [f"{cls().name}: {cls.title}", inspect.getdoc(cls) or "", _options(cls)]
    for rule in cls.rules:
        parts.append(_example(f"Rule: {rule.name}", rule.example))
        parts.append(_claims(rule))
        parts.extend(f"Does not apply, for example: {refusal.sentence}." for refusal in rule.refusals)
    parts.extend(_example(example.title, example) for example in cls.extra_examples)
    if not cls.rules:
        parts.append(f"Results are {cls.exactness.value}.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _claims(rule: Rule) -> str:
    law = f"Law: {rule.law}. " if rule.law else ""
    wrong = "".join(f" Variant of the law: {each}" for each in rule.wrong_laws)
    return f"{law}Results are {rule.results}.{wrong}"


def _options(cls: type[Pass]) -> str:
    lines = [f"  {cls().name}.{name} = {f.default}: {f.metadata['help']}" for name, f in cls.option_fields().items()]
    return "\n".join(["Options:", *lines]) if lines else ""


def _example(title: str, example: Example) -> str:
    return "\n".join(
        [
            title or "Example",
            *([f"  times: {_times(example)}"] if example.times_us else []),
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
