"""Write docs/rules.md, a page of the site, from the rules themselves, with z3's proofs: `make docs` runs it."""

import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

ABOUT = """\
Made from the rules in `passes/` when the site was built.

Every rule is tested on its example with hostile values (NaN, infinities, -0.0, denormals, the smallest
and largest integers) and with axes of 0, 1, 2 and 3. A rule that rests on a law of numbers names it, and
z3 proves the law: for integers of 8 and of 64 bits that wrap around, with and without a sign; for
booleans; for floats of 16 bits, rounded to nearest even, where NaN is NaN and 0.0 is not -0.0; for sizes
of axes and places along them, whole numbers from 0; for reals, where a rule is exact up to rounding.
"Overflows on the way" is said of a number in between: x * 2 * 0.5 gives infinity for an x of 3e38, and x is
3e38. Up to 1e18, where squares of float32 do not overflow, no infinity and no NaN comes or goes.
A rule for the mode `fast` alone says with which numbers its example gives another result, and a test runs them.
What the constants of a model must be for a rule to act (no overflow, no cancellation) is said in its pass."""


def _rules() -> Iterator[tuple[str, object]]:
    """Each rule of the passes that are shipped, with the name of its pass."""
    import passes

    for name, cls in passes.all_passes().items():
        if cls.__module__.startswith("passes."):
            yield from ((name, rule) for rule in cls.rules)


def standing(rule) -> tuple[str, str]:
    """What is proved of the rule, and why no more."""
    from workbench.evidence.verification.pass_files.proofs import prove
    from workbench.rewrite import Exactness

    if not rule.law:
        if rule.exactness is Exactness.BIT_EXACT:
            return "", "about shapes and names, not about numbers"
        return "", "no law of single numbers is written down for it"
    proof = prove(rule.law, rule.exactness)
    defined = rule.law.partition("(")[0]
    if proof.missing.startswith(f"z3 has no {defined} "):
        return "", f"it is how ONNX defines {defined}"
    return ", ".join(proof.proved), proof.wrong or proof.missing


def _in_table(text: str) -> str:
    return text.replace("|", "\\|")


def not_proved() -> list[str]:
    """A line for each rule that z3 does not prove."""
    lines = []
    for name, rule in _rules():
        proved, why = standing(rule)
        if not proved:
            lines.append(f"`{name}`, {rule.name}: {why}")
    return lines


def saturation() -> str:
    """A table of the equations of `saturate_algebra`."""
    from workbench.planning.saturation.equations import EQUATIONS

    rows = ["| equation | also from right to left | only where | exactness |", "|---|---|---|---|"]
    for equation in EQUATIONS:
        kinds = (("numbers", equation.numbers), ("tensors", equation.tensors), ("constants", equation.constants))
        where = "; ".join(f"{', '.join(names)}: {kind}" for kind, names in kinds if names)
        both = "yes" if equation.both else ""
        rows.append(f"| `` {_in_table(equation.law)} `` | {both} | {where} | {equation.exactness.value} |")
    return "\n".join(rows)


def document() -> str:
    """The page: a table of all rules, and the list of those that are tested only."""
    import passes

    rows = ["| pass | rule | law | exactness | proved by z3 for |", "|---|---|---|---|---|"]
    for name, rule in _rules():
        proved, why = standing(rule)
        law = f"`` {_in_table(rule.law)} ``" if rule.law else ""
        page = f"[`{name}`](passes/{name}.md)"
        rows.append(f"| {page} | {rule.name} | {law} | {_in_table(rule.results)} | {proved or f'not proved: {why}'} |")
    without = ", ".join(f"`{name}`" for name, cls in passes.all_passes().items() if not cls.rules)
    tested = "\n".join(f"- {line}" for line in not_proved())
    wrong = "\n".join(f"- `{name}`, {rule.name}: {each}" for name, rule in _rules() for each in rule.wrong_laws)
    parts = [
        "# Rules",
        ABOUT,
        "\n".join(rows),
        f"Passes that are no rules, and are tested by their effect on whole graphs: {without}.",
        "## Equations of equality saturation",
        "`saturate_algebra` puts these into its e-graph, those that the mode allows; z3 proves each for the kinds that "
        "it names (tests/test_saturation.py). Numbers are constants of one element, tensors all else.",
        saturation(),
        "## Wrong laws",
        "Equations that are easily taken for those of rules; z3 finds them wrong, and these numbers show it.",
        wrong,
        "## Not proved, tested only",
        tested,
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    (HERE / "rules.md").write_text(document(), encoding="utf-8")
    print("Not proved, tested only:", *not_proved(), sep="\n")
