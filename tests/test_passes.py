"""Every rule and pass on its own examples: exact graph in, exact graph out, exact sentences; every refusal.

A new pass in `passes/` is tested by being there.
"""

import numpy as np
import pytest

import passes
from tests.running import outputs, plays_both_ways, random_inputs, typed
from workbench.ir import Graph, from_text, graph_text
from workbench.planning.layout.strategies.layout_strategy import example_context
from workbench.presentation.explanations.explanation import explain_pass
from workbench.rewrite import Exactness, NoMatch, run_pass, with_options
from workbench.rewrite.external.tool_pass import ToolPass
from workbench.run.inputs import fed_inputs, in_forms, output_forms

PASSES = {name: cls for name, cls in passes.all_passes().items() if not issubclass(cls, ToolPass)}  # test_tools.py
EXAMPLES = [
    pytest.param(cls, example, id=f"{name}-{i}", marks=pytest.mark.skipif(bool(cls.missing()), reason=cls.missing()))
    for name, cls in PASSES.items()
    for i, example in enumerate(cls.examples())
]
REFUSALS = [
    pytest.param(cls, rule, refusal, id=f"{name}-{rule.name}-{i}")
    for name, cls in PASSES.items()
    for rule in cls.rules
    for i, refusal in enumerate(rule.refusals)
]


@pytest.mark.parametrize("name", [*PASSES, *passes.broken()])
def test_file_is_a_pass(name):
    fault = passes.broken().get(name)
    assert not fault


def example_pass(cls, example):
    return with_options(cls, example.options)


def opened(example) -> Graph:
    graph = typed(example.before)
    graph.dims = dict(example.dims)
    return graph


def run_example(cls, example):
    graph = opened(example)
    step = run_pass(example_pass(cls, example), graph, example_context(example), check_each=True)
    return graph, step


def without_names(graph: Graph) -> str:
    """The text without node names, which an example does not state."""
    lines = graph_text(graph).splitlines()
    return "\n".join(line.partition("] ")[2] if line.lstrip().startswith("[") else line for line in lines)


@pytest.mark.parametrize(("cls", "example"), EXAMPLES)
def test_example(cls, example):
    graph, step = run_example(cls, example)
    assert tuple(r.sentence for r in step.rewrites) == example.sentences
    expected = from_text(example.after)
    found = without_names(graph)
    assert sorted(found.splitlines()) == sorted(without_names(expected).splitlines()), f"what came out is {found}"
    assert [n.op for n in graph.nodes] == [n.op for n in expected.nodes]


@pytest.mark.parametrize(("cls", "example"), EXAMPLES)
def test_example_plays_backward_and_forward(cls, example):
    graph, step = run_example(cls, example)
    plays_both_ways(graph, step.rewrites, example.before)


@pytest.mark.parametrize(("cls", "example"), [p for p in EXAMPLES if not p.values[0].demonstration])
def test_example_computes_the_same_at_every_rewrite(cls, example):
    """Each rewrite alone keeps the outputs: any moment of a history can be run."""
    graph, original = opened(example), opened(example)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    for found in example_pass(cls, example).run(graph, example_context(example)):
        graph.apply(found.edit)
        found_outputs = outputs(graph, fed_inputs(inputs, original, graph))
        for name, array in in_forms(found_outputs, output_forms(original, graph)).items():
            rtol, atol = (2e-2, 1e-2) if cls.exactness is Exactness.NARROWED else (1e-5, 1e-6)
            np.testing.assert_allclose(array, expected[name], rtol=rtol, atol=atol, err_msg=found.sentence)


@pytest.mark.parametrize(("cls", "example"), [p for p in EXAMPLES if p.values[0].rules])
def test_each_value_of_the_example_may_be_read_elsewhere(cls, example):
    """With any of its values an output too, the rule refuses, or what it leaves computes that output as before."""
    before = typed(example.before)
    for value in [v for node in before.nodes for v in node.outputs if v and v not in before.outputs]:
        graph = before.copy()
        graph.outputs = (*before.outputs, value)
        original = graph.copy()
        step = run_pass(example_pass(cls, example), graph, example_context(example), check_each=True)
        if not step.rewrites:
            continue
        inputs = random_inputs(original)
        expected, found = outputs(original, inputs), outputs(graph, inputs)
        for name, array in found.items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6, err_msg=f"{value}, read elsewhere")


@pytest.mark.parametrize(("cls", "rule", "refusal"), REFUSALS)
def test_refusal(cls, rule, refusal):
    graph = typed(refusal.graph)
    options = with_options(cls, refusal.options)
    sentences = []
    for node in graph.nodes:
        if node.op not in rule.operators and "*" not in rule.operators:
            continue
        try:
            found = rule.match(graph, node, options)
        except NoMatch as no:
            sentences.append(str(no))
        else:
            pytest.fail(f"the rule acts: {found.sentence}")
    assert refusal.sentence in sentences


@pytest.mark.parametrize(
    "rule", [pytest.param(rule, id=f"{name}-{rule.name}") for name, cls in PASSES.items() for rule in cls.rules]
)
def test_every_rule_shows_where_it_does_not_act(rule):
    assert rule.refusals


@pytest.mark.parametrize("name", PASSES)
def test_pass_explains_itself(name):
    cls = PASSES[name]
    text = explain_pass(cls)
    assert cls.title in text
    assert "Source:" in text or not cls.rules or cls.__doc__
    for example in cls.examples():
        for sentence in example.sentences:
            assert sentence in text
    for refusal in cls.refusals():
        assert refusal.sentence in text
    assert cls.examples(), "a pass shows at least one example"
