"""Every rule on the mutants of its examples: where it still acts, ONNX Runtime gives the same numbers.

This finds what a rule takes for granted: that a perm is the one of its example, that a Cast casts from that type,
that the operator before is the one there. A new pass in `passes/` is tested by being there.
"""

from dataclasses import dataclass

import onnx
import pytest

from tests.fuzz import Fragment, Plan, alone, failure, fragments
from tests.running import typed
from workbench.evidence.verification.pass_files.mutants import mutants
from workbench.formats.io.errors import LoadError
from workbench.formats.io.exporting import to_bytes
from workbench.formats.io.onnx_file import load_proto
from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Rewrite, Rule

FRAGMENTS = [pytest.param(one, id=f"{one.key}-{i}") for i, one in enumerate(fragments())]
SOME = 12  # one in so many mutants is tried in the quick run


def wrong(fragment: Fragment, every: int = 1) -> list[str]:
    """What goes wrong on each mutant of the example that can be opened: the change, and the difference."""
    plan = alone(fragment, fragment.example.mode)
    found = []
    for words, mutant in mutants(typed(fragment.example.before), every):
        if not acts(plan, mutant) or not failure(mutant, plan):
            continue
        file = as_file(mutant)  # has the types that a user's file gets
        said = "" if file is None else failure(file, plan)
        if said:
            found.append(f"{words}: {said}")
    return found


def acts(plan: Plan, graph: Graph) -> bool:
    try:
        return any(step.rewrites for step in plan.run(graph))
    except Exception:  # `failure` says which, if the graph is one that ONNX Runtime runs
        return True


def as_file(graph: Graph) -> Graph | None:
    """The graph as it is opened from a file; None if that is refused."""
    try:
        return load_proto(onnx.load_from_string(to_bytes(graph)))
    except LoadError:
        return None


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_some_changes_of_the_example_keep_the_numbers(fragment):
    assert wrong(fragment, SOME) == []


@pytest.mark.thorough
@pytest.mark.parametrize("fragment", [one for one in FRAGMENTS if "saturate" not in one.id])  # a process a mutant
def test_every_change_of_the_example_keeps_the_numbers(fragment):
    assert wrong(fragment) == []


def last_node_goes(*operators: str):
    """A node, or two in a row, of these operators are dropped, whatever their attributes and operands are."""

    def match(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
        before = graph.producer(node.inputs[0])
        if len(operators) == 2 and (before is None or before.op != operators[0]):
            raise NoMatch(f"{node} does not follow a {operators[0]}")
        value = node.inputs[0] if len(operators) == 1 else before.inputs[0]
        return Rewrite(Edit(remove=(node.name,), replace={node.outputs[0]: value}), "dropped", (node.name,))

    return match


WRONG = {
    "whatever the perm": (
        ("Transpose", "Transpose"),
        """g (float[2,3,4] x) => (float[2,3,4] y) {
            a = Transpose<perm=[0,2,1]>(x)  b = Transpose<perm=[0,2,1]>(a)  y = Neg(b)
        }""",
        "perm=",
    ),
    "whatever the type": (("Cast",), "g (float[2] x) => (float[2] y) { a = Cast<to=1>(x)  y = Neg(a) }", "to="),
    "whatever is before": (("Relu",), "g (float[2] x) => (float[2] y) { a = Abs(x)  b = Relu(a)  y = Exp(b) }", "Abs"),
}


@pytest.mark.parametrize(("operators", "before", "said"), WRONG.values(), ids=WRONG)
def test_a_rule_that_takes_its_example_for_granted_is_found(operators, before, said):
    example = Example(before=before, after="", sentences=())

    @dataclass(frozen=True)
    class TakenForGranted(Pass):
        rules = (Rule("wrong", operators[:1], last_node_goes(*operators), example, exactness=Exactness.ROUNDING),)

    found = wrong(Fragment("wrong", TakenForGranted, example))
    assert found and any(said in words for words in found)
    assert not any(words.startswith("as it is") for words in found)


def test_a_rule_acts_on_some_mutants_and_refuses_others():
    (fragment,) = (one for one in fragments() if one.key == "remove_noops.cast to the same type")
    plan = alone(fragment, fragment.example.mode)
    acted = [acts(plan, mutant) for _, mutant in mutants(typed(fragment.example.before))]
    assert 0 < sum(acted) < len(acted)
