"""Queries over nodes: what each term finds, and the sentence for what cannot be read."""

from __future__ import annotations

import pytest

from tests.viewing import history_of, large_graph, sample_history, view_of
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.finding import find
from workbench.presentation.view.groups import groups_around
from workbench.presentation.view.query import NodeFacts, QueryError, parse_query
from workbench.presentation.view.timeline import timeline_of

CONV = NodeFacts(
    "Conv", "/down.0/attn2/to q:0", ("down.0/attn2",), ("1x64x56x56",), ("NCHW", "OIHW"), ("down.0.attn2",)
)
OURS = NodeFacts("workbench.Conv_NHWC", "n1", (), ("1x56x56x4096",), ("NHWC", "HWIO"))


@pytest.mark.parametrize(
    ("query", "conv", "ours"),
    [
        ("op:conv", True, False),
        ("op:Conv*", True, True),
        ("op:workbench.conv_nhwc", False, True),
        ("op:con", False, False),
        ("conv", True, True),
        ("scope:ATTN2", True, False),
        ("scope:down.0/attn", True, False),
        ("module:down.0", True, False),
        ("module:0.ATTN2", True, False),
        ("module:down.0.attn", False, False),
        ("name:to", True, False),
        ('name:"to q:0"', True, False),
        ('"to q:0"', True, False),
        ('"op:conv"', False, False),
        ("shape:56", True, True),
        ("shape:4096", False, True),
        ("shape:409", False, False),
        ("shape:64x56", True, False),
        ("shape:1x*x56x56", True, False),
        ("shape:56x1", False, False),
        ("layout:nhwc", False, True),
        ("layout:HWIO", False, True),
        ("layout:Tensor", False, False),
        ("56 nchw", True, False),
        ("op:Conv shape:4096", False, False),
        ("  ", True, True),
    ],
)
def test_a_query_holds_where_all_its_terms_do(query, conv, ours):
    wanted = parse_query(query)
    assert (wanted.holds(CONV), wanted.holds(OURS)) == (conv, ours)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (
            "conv lay:NHWC",
            "there is no key 'lay'; the keys are op, scope, module, name, shape, layout, and a word with a colon "
            'is written in double quotes, "lay:NHWC"',
        ),
        ("op: Conv", "'op:' has no value; write it without a blank after the colon, such as op:Transpose"),
        (
            "shape:4o96",
            "'4o96' is not a shape; write one size or several with x between them, such as 4096 or 1x64x*x56, "
            "where * is any size",
        ),
        (
            "layout:NHKW",
            "'NHKW' is not a layout; write Tensor, or an order of axes such as NCHW, NHWC, HWIO or NCHW8c",
        ),
        ('conv "to q', 'a double quote is not closed in "to q; write a second one after the text'),
    ],
)
def test_what_cannot_be_read_is_one_sentence(query, sentence):
    with pytest.raises(QueryError) as error:
        parse_query(query)
    assert str(error.value) == sentence


def test_hits_have_the_operator_first_and_say_when_they_are_hits():
    history = sample_history("resnet50_narrow", "fold_batchnorm", "layout_greedy")
    timeline = timeline_of(history, load_profile("cuda"))
    found = find(timeline, "layout:NHWC op:Conv*")
    assert found.total == 53
    name, words = found.hits[0]
    assert words.startswith("Conv, then ") and name in words
    assert all(born > 53 for spans in found.spans.values() for born, _ in spans), "NHWC only from layout_greedy on"
    assert [parse_query(word).rank(OURS) for word in ("n1", "conv_nhwc", "nhw", "4096")] == [0, 0, 1, 2]
    ops = [timeline.versions[name][0].node.op for name, _ in find(timeline, "transpose").hits]
    assert ops == sorted(ops, key=lambda op: op != "Transpose")


def test_an_inserted_node_is_found_by_the_scope_in_which_it_is_drawn():
    view = view_of(sample_history("basic_pitch_nmp", "fold_constants", "layout_greedy"))
    added = [n for n, v in view.timeline.versions.items() if v[0].born > 0 and groups_around(view.root, n)]
    assert added
    scope = groups_around(view.root, added[0])[-1].path[-1]
    found = find(view.timeline, f'op:Transpose scope:"{scope}"', view.root)
    assert added[0] in found.spans


def test_a_scope_of_a_large_model_is_found_whole():
    view = view_of(history_of(large_graph(600, scopes=True), []))
    found = find(view.timeline, "scope:block4/ op:Mul", view.root)
    assert found.total and all("/block4/" in name for name, _ in found.hits)
