"""Write docs/passes.md and docs/passes/, pages of the site, from the passes themselves: `make docs` runs it.

The first is a list of all passes; the folder has a page for each: its options, and each rule with its example before
and after, its sentences and its refusals.
"""

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # before docs/, where a folder is called as the passes are

MODES = ("exact", "ieee", "fast")  # from the strictest on
LINE = 76  # characters of a preset's text


def pages() -> dict[str, str]:
    """Each page by its place in docs/; the passes of the user who builds the site are in none."""
    import passes

    classes = {name: cls for name, cls in passes.all_passes().items() if cls.__module__.startswith("passes.")}
    return {"passes.md": listed(classes), **{f"passes/{name}.md": page(name, cls) for name, cls in classes.items()}}


def listed(classes: Mapping) -> str:
    """The list: presets, and a table of the passes of each folder."""
    import passes
    from docs.made_pages import folder_title

    parts = [
        "# Passes",
        "Made from the files in `passes/` when the site was built; the examples are tests.",
        "## Presets",
    ]
    for name, entry in passes.presets().items():
        text = "." if "alias" in entry else f":\n\n```text\n{_by_lines(entry['pipeline'])}\n```"
        parts.append(f"`{name}`: {entry['title']}{text}")
    groups: dict[str, list[str]] = {}
    for name, cls in classes.items():
        found = {_mode(each) for each in _exactness(cls)}
        exactness = ", ".join(mode for mode in MODES if mode in found)
        row = f"| [`{name}`](passes/{name}.md) | {_cell(cls.title)} | {len(cls.rules) or '-'} | {exactness} |"
        groups.setdefault(cls.__module__.rpartition(".")[0], []).append(row)
    for module in sorted(groups):
        about = inspect.getdoc(sys.modules[module]).partition("\n\n")[0]
        title = folder_title(module.rpartition(".")[2])
        head = "| pass | what it does | rules | which act from mode |\n|---|---|---:|---|"
        parts += [f"## {title}", about, "\n".join([head, *groups[module]])]
    return "\n\n".join(parts) + "\n"


def page(name: str, cls: type) -> str:
    """One pass: what `python -m workbench explain` prints, with pictures."""
    parts = [f"# `{name}`: {_escaped(cls.title)}", _escaped(_summary(cls)), *_standing(name, cls)]
    parts.append(_docstring(inspect.getdoc(cls) or ""))
    parts += _options(name, cls)
    for rule in cls.rules:
        parts += [f"## Rule: {rule.name}", *_claims(rule), *_example(rule.example)]
        if rule.refusals:
            refused = dict.fromkeys(refusal.sentence for refusal in rule.refusals)
            sentences = "\n".join(f"- {_escaped(sentence)}" for sentence in refused)
            parts.append(f"It does not apply, for example:\n\n{sentences}")
    for number, example in enumerate(cls.extra_examples, 1):
        parts += [f"## Example: {_escaped(example.title or str(number))}", *_example(example)]
    if not cls.rules:
        parts.append(f"## Exactness\n\nResults are {cls.exactness.value}.")
    return "\n\n".join(filter(None, parts)) + "\n"


def _summary(cls: type) -> str:
    """The first paragraph of its module's docstring, whatever is installed here."""
    return " ".join((sys.modules[cls.__module__].__doc__ or "").strip().partition("\n\n")[0].split())


def _standing(name: str, cls: type) -> Iterator[str]:
    """Where it is used, what it needs, and how to run it."""
    import passes

    inside = [
        preset
        for preset, entry in passes.presets().items()
        if "alias" not in entry and name in re.findall(r"\w+", entry["pipeline"])
    ]
    named = ", ".join(f"`{preset}`" for preset in inside)
    yield f"In the presets {named}." if len(inside) > 1 else f"In the preset {named}." if inside else "In no preset."
    if cls.demonstration:
        yield "A demonstration: it is wrong on purpose."
    if cls.packages:
        yield f"It needs {' and '.join(f'`{package}`' for package in cls.packages)}."
    yield f"```bash\ngraph-workbench optimize model.onnx -o out.onnx --passes {name}\n```"


def _options(name: str, cls: type) -> list[str]:
    fields = cls.option_fields()
    rows = [
        f"| `{name}.{option}` | `{_cell(str(field.default)) or ' '}` | {_cell(field.metadata['help'])} |"
        for option, field in fields.items()
    ]
    return ["## Options", "\n".join(["| option | default | what it does |", "|---|---|---|", *rows])] if rows else []


def _claims(rule) -> Iterator[str]:
    yield f"Results are {_escaped(rule.results)}."
    if rule.law:
        yield f"Law: `` {rule.law} ``"
    for wrong in rule.wrong_laws:
        yield f"Variant of the law: {_escaped(str(wrong))}"


def _example(example) -> Iterator[str]:
    from docs.example_pictures import pictures
    from workbench.presentation.explanations.explanation import indented_graph

    given = {**example.options, **({"mode": example.mode} if example.mode != "ieee" else {})}
    given |= {f"dim {name}": size for name, size in example.dims.items()}
    given |= {f"time of {operator}": f"{time:g} us" for operator, time in example.times_us.items()}
    if given:
        yield "With " + ", ".join(f"{name} `{value}`" for name, value in given.items()) + ":"
    yield pictures(example.before, example.after, example.target)
    graphs = f"before:\n{indented_graph(example.before)}\nafter:\n{indented_graph(example.after)}"
    yield f"```text\n{graphs}\n```"
    yield "\n".join(f"- {_escaped(sentence)}" for sentence in example.sentences)


def _exactness(cls: type) -> list:
    return [rule.exactness for rule in cls.rules] or [cls.exactness]


def _mode(exactness) -> str:
    """The strictest mode that allows it."""
    return next(mode for mode in MODES if exactness.runs_in(mode))


def _docstring(text: str) -> str:
    """Lists begin a paragraph, and addresses are links; indented lines stay as they are."""
    text = re.sub(r"(?m)^((?!- |  ).+)\n(?=- )", r"\1\n\n", text)
    text = re.sub(r"(?<![<(\w])(https?://[^\s,;)]*[\w/])", r"<\1>", text)
    return "\n".join(line if line.startswith("    ") else line.replace("*", "\\*") for line in text.split("\n"))


def _escaped(text: str) -> str:
    return re.sub(r"([*`<\[\]])", r"\\\1", text)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*")


def _by_lines(pipeline: str) -> str:
    """The pipeline's text without the line breaks of its file, a few passes a line."""
    return textwrap.fill(" ".join(pipeline.replace(",", ", ").split()).replace("( ", "(").replace(", )", ")"), LINE)


if __name__ == "__main__":
    from docs.made_pages import write_pages

    write_pages(pages(), "passes")
